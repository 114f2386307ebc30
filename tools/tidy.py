"""Runs clang-tidy over sources in parallel: tidy.py ROOT BUILD_DIRECTORY [FILE...]; without files, over all that are built.

The flags come from the build directory's compile_commands.json, without those that only GCC knows.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

TIDY = "clang-tidy-14"


def clang_command(command):
    """The compiler's arguments as clang takes them: without ccache, warnings and GCC's precompiled header."""
    words = shlex.split(command)
    compiler = next(i for i, word in enumerate(words) if pathlib.Path(word).name in ("c++", "g++", "g++-12"))
    kept, skip = ["clang++"], False
    for word, following in zip(words[compiler + 1:], words[compiler + 2:] + [""]):
        if skip:
            skip = False
        elif word == "-include" and "cmake_pch" in following:
            skip = True
        elif not word.startswith("-W"):  # GCC's warnings are the build's business; clang does not know all of them.
            kept.append(word)
    return shlex.join(kept)


def database(build, root):
    entries = json.loads((build / "compile_commands.json").read_text())
    ours = [e for e in entries if root in pathlib.Path(e["file"]).parents and build not in pathlib.Path(e["file"]).parents]
    return [{**e, "command": clang_command(e["command"])} for e in ours if not e["file"].endswith((".hxx", ".hxx.cxx"))]


def tidy(path, folder):
    done = subprocess.run([TIDY, "--quiet", "-p", folder, path], capture_output=True, text=True)
    noise = ("generated.", "Error while processing")
    lines = [line for line in done.stderr.splitlines() if not any(word in line for word in noise)]
    return done.returncode, "\n".join([done.stdout, *lines]).strip()


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), (pathlib.Path(sys.argv[1]) / sys.argv[2]).resolve()
    entries = database(build, root)
    wanted = {str(pathlib.Path(name).resolve()) for name in sys.argv[3:]} or {e["file"] for e in entries}
    unknown = wanted - {e["file"] for e in entries}
    if unknown:
        sys.exit(f"error: not built, so not checked: {', '.join(sorted(unknown))}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(entries))
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for code, output in pool.map(lambda path: tidy(path, folder), sorted(wanted)):
                failed += code != 0
                if output:
                    print(output, flush=True)
    if failed:
        sys.exit(f"{failed} of {len(wanted)} files have problems")
    print(f"{len(wanted)} files are clean")


if __name__ == "__main__":
    main()
