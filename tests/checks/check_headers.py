"""Every header compiles alone: check_headers.py ROOT COMPILER INCLUDE_DIRECTORY...

A header that some source includes first is compiled alone by the build itself, but for the standard headers that are
precompiled: what it uses of these, and of all others, is therefore looked up by name. The headers that no source includes
first are compiled here, except those that reach libtorch, which take 20 s each: some source must include them first.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from check_layers import INCLUDE, TORCH
from sources import cpp_files, finish

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++"]

# Which names of std:: a header gives that must be included where they are used. A name of no header here is a problem, so
# that the list stays whole.
NAMES = {
    "algorithm": "clamp copy copy_n max min nth_element ranges rotate sort",
    "array": "array",
    "atomic": "atomic memory_order_acquire memory_order_relaxed",
    "bit": "bit_cast countr_zero endian",
    "charconv": "from_chars",
    "chrono": "chrono chrono_literals",
    "cmath": "abs sqrt",
    "concepts": "same_as",
    "condition_variable": "condition_variable condition_variable_any",
    "cstddef": "byte ptrdiff_t size_t to_integer",
    "cstdint": "int32_t int64_t uint16_t uint32_t uint64_t uint8_t",
    "cstdio": "fclose fflush fopen printf",
    "cstdlib": "abort abs free strtol",
    "cstring": "memcpy",
    "deque": "deque",
    "filesystem": "filesystem",
    "fstream": "ifstream ios ofstream",
    "functional": "function less",
    "future": "async future_status launch packaged_task shared_future",
    "initializer_list": "initializer_list",
    "iterator": "data istreambuf_iterator",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "mutex scoped_lock unique_lock",
    "new": "bad_alloc",
    "optional": "nullopt optional",
    "queue": "priority_queue",
    "ranges": "ranges",
    "set": "set",
    "span": "as_bytes as_writable_bytes span",
    "stdexcept": "runtime_error",
    "stop_token": "stop_token",
    "string": "stoi string to_string",
    "string_view": "string_view",
    "system_error": "error_code",
    "thread": "jthread stop_token this_thread thread",
    "type_traits": "is_const_v is_enum_v is_unsigned_v remove_reference_t",
    "utility": "declval exchange forward get in_place_index move pair swap",
    "variant": "get get_if holds_alternative variant",
    "vector": "vector",
}
# What these bring along, as the standard or every library has it.
ALSO = {
    "utility": "algorithm array deque functional list map memory optional set string thread tuple variant vector",
    "cstddef": "array cstdio cstdlib cstring deque functional list map memory new optional set span string string_view utility variant "
               "vector",
    "cstdint": "atomic chrono filesystem random thread",
    "initializer_list": "algorithm array deque list map optional set string utility variant vector",
    "iterator": "array deque list map set span string string_view vector",
    "string_view": "filesystem string",
    "concepts": "algorithm functional iterator ranges span",
    "system_error": "filesystem fstream future mutex thread",
    "stdexcept": "array fstream",
}


def givers():
    """The headers that give each name."""
    by_name = {}
    for header, names in NAMES.items():
        for name in names.split():
            by_name.setdefault(name, set()).update({header}, ALSO.get(header, "").split())
    return by_name


def code_of(path):
    """A file's text without comments and strings."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.DOTALL)


def brought(header, root, seen):
    """The headers that one includes, itself or through others of ours."""
    if header in seen:
        return set()
    seen.add(header)
    names = set(included(header))
    ours = filter(None, (resolve(name, header, root) for name in included(header)))
    return names.union(*(brought(other, root, seen) for other in ours))


def names_without_header(header, root, by_name):
    has = brought(header, root, set())
    if "fmt::" in code_of(header) and not any(name.startswith("fmt/") for name in has):
        yield f"{header.relative_to(root)}: uses fmt:: without a header of it"
    for name in sorted(set(re.findall(r"\bstd::(\w+)", code_of(header)))):
        if name not in by_name:
            yield f"{header.relative_to(root)}: std::{name} is of no header that check_headers.py knows; add it to NAMES"
        elif not by_name[name] & has:
            yield f"{header.relative_to(root)}: uses std::{name} without <{next(h for h in NAMES if name in NAMES[h].split())}>"


def included(path):
    return [name for _, name in INCLUDE.findall(path.read_text())]


def resolve(name, including, root):
    """The header of ours that an include names, or None."""
    for folder in (including.parent, root / "src", root / "include"):
        if (folder / name).is_file():
            return (folder / name).resolve()
    return None


def included_first(sources, root):
    """The headers that come first in some source."""
    firsts = ((source, included(source)[:1]) for source in sources)
    return {resolve(name, source, root) for source, names in firsts for name in names} - {None}


def reaches_torch(header, root, seen):
    if header in seen:
        return False
    seen.add(header)
    names = included(header)
    ours = filter(None, (resolve(name, header, root) for name in names))
    return any(TORCH.match(name) for name in names) or any(reaches_torch(other, root, seen) for other in ours)


def compile_alone(header, root, compiler, directories):
    command = [compiler, *FLAGS, "-I", str(root / "src"), "-I", str(root / "include"), *(f"-isystem{d}" for d in directories), "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True)
    if done.returncode:
        return f"{header.relative_to(root)}: does not compile alone\n{done.stderr}"
    return None


def main():
    root, compiler, directories = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    headers = [p for p in cpp_files(root) if p.suffix == ".h"]
    problems = [f"{h.relative_to(root)}: has no #pragma once" for h in headers if "#pragma once\n" not in h.read_text()]
    by_name = givers()
    problems += [problem for header in headers for problem in names_without_header(header, root, by_name)]
    first = included_first([p for p in cpp_files(root) if p.suffix == ".cc"], root)
    others = [h for h in headers if h not in first]
    slow = [h for h in others if reaches_torch(h, root, set())]
    problems += [f"{h.relative_to(root)}: no source includes it first, so nothing shows that it compiles alone" for h in slow]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        checks = [pool.submit(compile_alone, h, root, compiler, directories) for h in others if h not in slow]
        problems += filter(None, (check.result() for check in checks))
    finish(problems, f"{len(headers)} headers, {len(checks)} of them compiled here")


if __name__ == "__main__":
    main()
