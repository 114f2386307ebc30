"""Reads the lazy-load databases in which R's packages keep their data, without R.

The .rdx file is a compressed, serialised list that maps names to [offset, length] in the .rdb file; each piece there is
four big-endian bytes of its size, then a compressed, serialised value. Only what such files hold is understood: lists,
pairlists, factors, character, integer, logical and real vectors ("R Internals", section "Serialization Formats").
"""
import bz2
import gzip
import lzma
import pathlib
import struct
import zlib

# What goes wrong when a file is missing, damaged or of another kind.
ERRORS = (OSError, ValueError, KeyError, IndexError, EOFError, zlib.error, lzma.LZMAError)

# How a missing integer is written.
MISSING = -2**31

# The types of values that R writes.
NIL, NIL_VALUE, SYMBOL, REFERENCE = 0, 254, 1, 255
PAIRLIST, CHARS, LOGICALS, INTEGERS, REALS, STRINGS, LIST = 2, 9, 10, 13, 14, 16, 19
HAS_ATTRIBUTES, HAS_TAG = 1 << 9, 1 << 10


class Reader:
    """Reads one value of R's XDR serialisation; vectors become lists, named lists dicts, factors lists of words."""

    def __init__(self, data):
        self.data, self.place, self.references = data, 0, []

    def document(self):
        if self.take(2) != b"X\n":
            raise ValueError("not R's XDR serialisation")
        version = self.integer()
        self.take(8)  # The versions of R that wrote it and that can read it.
        if version == 3:
            self.take(self.integer())  # The native encoding's name.
        elif version != 2:
            raise ValueError(f"serialisation version {version} is not understood")
        return self.value()

    def take(self, size):
        piece = self.data[self.place:self.place + size]
        if len(piece) != size:
            raise ValueError("it ends too early")
        self.place += size
        return piece

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def value(self):
        flags = self.integer()
        kind = flags & 0xFF
        if kind in (NIL, NIL_VALUE):
            return None
        if kind == SYMBOL:
            self.references.append(self.value())
            return self.references[-1]
        if kind == REFERENCE:
            return self.references[((flags >> 8) or self.integer()) - 1]
        if kind == PAIRLIST:
            return self.pairlist(flags)
        if kind == CHARS:
            size = self.integer()
            return None if size == -1 else self.take(size).decode("utf-8")
        items = self.vector(kind)
        attributes = self.value() if flags & HAS_ATTRIBUTES else {}
        if "levels" in attributes:
            items = [None if item == MISSING else attributes["levels"][item - 1] for item in items]
        return dict(zip(attributes["names"], items)) if "names" in attributes else items

    def pairlist(self, flags):
        pairs = {}
        while True:
            if flags & HAS_ATTRIBUTES:
                self.value()
            tag = self.value() if flags & HAS_TAG else len(pairs)
            pairs[tag] = self.value()
            flags = self.integer()
            if flags & 0xFF in (NIL, NIL_VALUE):
                return pairs
            if flags & 0xFF != PAIRLIST:
                raise ValueError("a pairlist ends with something else")

    def vector(self, kind):
        size = self.integer()
        if kind in (STRINGS, LIST):
            return [self.value() for _ in range(size)]
        if kind in (INTEGERS, LOGICALS):
            return list(struct.unpack(f">{size}i", self.take(4 * size)))
        if kind == REALS:
            return list(struct.unpack(f">{size}d", self.take(8 * size)))
        raise ValueError(f"a value of type {kind} is not understood")


def unpack(piece):
    """The content of a piece of the .rdb file: its size, then a letter for the compressor unless that is zlib."""
    body = piece[4:]
    if body[:1] == b"2":
        content = bz2.decompress(body[1:])
    elif body[:1] == b"Z":
        # R writes raw LZMA2 with its default preset.
        content = lzma.decompress(body[1:], lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
    else:
        content = zlib.decompress(body)
    if len(content) != struct.unpack(">I", piece[:4])[0]:
        raise ValueError("a piece has not the size that it declares")
    return content


def read_index(path):
    packed = path.read_bytes()
    return Reader(gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else zlib.decompress(packed)).document()


def read(base, names):
    """The values of these names in base.rdx and base.rdb, in order."""
    places = read_index(pathlib.Path(base + ".rdx"))["variables"]
    database = pathlib.Path(base + ".rdb").read_bytes()
    for name in names:
        offset, length = places[name]
        yield Reader(unpack(database[offset:offset + length])).document()
