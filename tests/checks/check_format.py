"""Formats all C++ files with clang-format 14, or says which are not formatted: check_format.py ROOT [--check|--write]"""
import re
import shutil
import subprocess
import sys

from sources import cpp_files, finish, root_argument

MAJOR = 14  # Other versions format differently.


def find_clang_format():
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        path = shutil.which(name)
        if path:
            version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
            found = re.search(r"version (\d+)", version)
            if found and int(found.group(1)) == MAJOR:
                return path
    sys.exit(f"clang-format {MAJOR} is not installed; ./dev setup installs it")


def main():
    root = root_argument()
    files = cpp_files(root)
    if not files:
        sys.exit(f"{root}: no C++ files found")
    command = [find_clang_format(), "--style=file"]
    if sys.argv[2:] == ["--write"]:
        subprocess.run([*command, "-i", *map(str, files)], check=True)
        return
    names = [str(path.relative_to(root)) for path in files]
    done = subprocess.run([*command, "--dry-run", "-Werror", *names], cwd=root, capture_output=True, text=True)
    wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "code should be clang-formatted" in line})
    problems = [f"{name}: not formatted; ./dev format does it" for name in wrong]
    if done.returncode and not problems:
        problems = [done.stderr]
    finish(problems, f"{len(files)} files are formatted")


if __name__ == "__main__":
    main()
