"""Checks that a folder holds the four files of MNIST or Fashion-MNIST, whole: check_idx.py FOLDER."""
import gzip
import pathlib
import struct
import sys

IMAGES, LABELS, SIDE = 0x00000803, 0x00000801, 28
EXPECTED = {
    "train-images-idx3-ubyte": (IMAGES, 60000),
    "train-labels-idx1-ubyte": (LABELS, 60000),
    "t10k-images-idx3-ubyte": (IMAGES, 10000),
    "t10k-labels-idx1-ubyte": (LABELS, 10000),
}


def read(folder, name):
    packed = folder / (name + ".gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()


def problem(content, magic, count):
    header = struct.pack(">II", magic, count)
    size = count
    if magic == IMAGES:
        header += struct.pack(">II", SIDE, SIDE)
        size *= SIDE * SIDE
    if not content.startswith(header):
        return "its header is not the expected one"
    if len(content) != len(header) + size:
        return f"it has {len(content)} bytes, expected {len(header) + size}"
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, (magic, count) in EXPECTED.items():
        try:
            why = problem(read(folder, name), magic, count)
        except (OSError, EOFError) as error:
            why = str(error)
        if why:
            sys.exit(f"error: {name} was not fetched whole: {why}")


if __name__ == "__main__":
    main()
