"""Runs a benchmark by name: run.py [NAME [ARGUMENT...]], which is `./dev bench [NAME [ARGUMENT...]]`.

NAME is a script beside this one. Without NAME: lists them, each with the first line of what it says of itself.
"""
import ast
import difflib
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def benchmarks():
    scripts = sorted(path for path in FOLDER.glob("*.py") if path.name != pathlib.Path(__file__).name)
    return {path.stem: path for path in scripts}


def summary(path):
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.partition("\n")[0]


def main():
    known = benchmarks()
    if len(sys.argv) == 1:
        for name, path in known.items():
            print(f"{name:12} {summary(path)}")
        return 0
    name = sys.argv[1]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(known) or 'none'}"
        print(f"error: there is no benchmark '{name}'{hint}", file=sys.stderr)
        return 2
    try:
        return subprocess.run([sys.executable, known[name], *sys.argv[2:]], cwd=FOLDER.parent).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
