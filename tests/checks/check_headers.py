"""Every header compiles alone: check_headers.py ROOT COMPILER INCLUDE_DIRECTORY...

A header that some source includes first is compiled alone by the build itself. The others are compiled here, except those
that reach libtorch, which take 20 s each: some source must include them first.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

from check_layers import INCLUDE, TORCH
from sources import cpp_files, finish

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++"]


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
