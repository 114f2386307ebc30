"""What the checks share: the project's own files, and how a check ends."""
import pathlib
import subprocess
import sys

CPP = {".h", ".cc"}
# Folders at the root with C++ of ours.
CPP_FOLDERS = ("include", "src", "apps", "examples", "tests", "bench")


def project_files(root):
    """Files that are or may come under version control; without git (a tarball), all but build and data folders."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
        names = filter(None, listed)
    except (OSError, subprocess.CalledProcessError):
        generated = ("build", "runs", "data", "node_modules", ".git")
        paths = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
        names = (p.as_posix() for p in paths if not p.parts[0].startswith(generated))
    return sorted(root / name for name in set(names) if (root / name).is_file())


def cpp_files(root):
    return [p for p in project_files(root) if p.suffix in CPP and p.relative_to(root).parts[0] in CPP_FOLDERS]


def root_argument():
    return pathlib.Path(sys.argv[1]).resolve()


def finish(problems, good):
    """Prints the problems and exits 1, or prints what is good."""
    problems = list(problems)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}")
    print(good)
