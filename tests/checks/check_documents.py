"""What documents name exists: check_documents.py ROOT TANDEM_PROGRAM

In every *.md: relative links resolve (with their anchors); paths in code exist in the project; `./dev` and `tandem`
commands in code are real, with the sub-commands and flags that they are shown with, as the programs' own --help says.
Names that a user chooses are written in capitals (JOB.toml, NAME) or with "..." and are not looked up.
"""
import functools
import pathlib
import re
import shlex
import subprocess
import sys

from sources import finish, project_files

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.M)
SHELL = {"", "sh", "bash", "shell", "console"}
# Folders and files at the root that make a word a path of ours; what a build or a run makes is not looked up.
MADE = ("build/", "build-", "runs/", "data/")
WORD_IS_PATH = re.compile(r"^(?:\./)?[\w.-]+(?:/[\w.*{},-]+)*/?$")
FLAG = re.compile(r"^--?[A-Za-z][\w-]*")


def anchor(heading):
    text = re.sub(r"[^\w\s-]", "", heading.replace("`", "").strip().lower())
    return re.sub(r"\s", "-", text)


def check_link(document, target):
    if re.match(r"^[a-z]+:", target):
        return None
    name, _, fragment = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.exists():
        return f"link to {target}: there is no such file"
    if fragment and path.suffix == ".md" and fragment not in map(anchor, HEADING.findall(path.read_text())):
        return f"link to {target}: there is no such heading"
    return None


def is_path_of_ours(word, top_names):
    if not WORD_IS_PATH.match(word) or any(c in word for c in "*{}"):
        return False
    plain = word.removeprefix("./")
    if plain.startswith(MADE) or re.search(r"[A-Z]{3,}(?!\.md)", plain.split("/")[-1]) and not plain.endswith(".md"):
        return False
    return "/" in plain and plain.split("/")[0] in top_names


def check_index(root):
    """Every decision is in the index of decisions."""
    index = root / "docs" / "decisions" / "README.md"
    if index.exists():
        linked = set(LINK.findall(index.read_text()))
        for path in sorted(index.parent.glob("*.md")):
            if path != index and path.name not in linked:
                yield f"docs/decisions/README.md: does not list {path.name}"


class Commands:
    """The two commands' own help, asked for once for each sub-command."""

    def __init__(self, root, tandem):
        self.programs = {"./dev": [str(root / "dev")], "tandem": [tandem], "build/bin/tandem": [tandem]}

    @functools.lru_cache(maxsize=None)
    def help(self, program, words):
        done = subprocess.run([*self.programs[program], *words, "--help"], capture_output=True, text=True, timeout=60)
        return (done.stdout + done.stderr) if done.returncode == 0 else None

    def check(self, line):
        """A problem with a command line that starts with one of the programs, or None."""
        try:
            program, *words = shlex.split(line, comments=True)
        except ValueError:
            return None
        commands = []
        for word in words:
            if word in ("|", "&&", "||", ";", ">", "2>&1", "&"):
                break
            if FLAG.match(word):
                problem = self.check_flag(program, tuple(commands), word)
                if problem:
                    return f"`{line}`: {problem}"
            elif re.fullmatch(r"[a-z][a-z-]*", word) and self.takes_commands(program, tuple(commands)):
                commands.append(word)
                if self.help(program, tuple(commands)) is None:
                    return f"`{line}`: there is no {program} {' '.join(commands)}"
        return None

    def takes_commands(self, program, commands):
        if program == "./dev":
            return not commands
        return not commands or re.search(r"^Subcommands:", self.help(program, commands) or "", re.M) is not None

    def check_flag(self, program, commands, word):
        flag = FLAG.match(word).group()
        text = self.help(program, commands)
        if flag in ("-h", "--help"):
            return None
        if text is None or not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text):
            return f"{' '.join((program, *commands))} has no {flag}"
        return None


def command_lines(text):
    """Lines of shell blocks and code spans that start with one of the programs."""
    lines = [line for language, body in FENCE.findall(text) if language in SHELL for line in body.splitlines()]
    lines += SPAN.findall(FENCE.sub("", text))
    for line in lines:
        line = re.sub(r"^\s*\$\s+", "", line).strip()
        if re.match(r"(\./dev|tandem|build/bin/tandem)(\s|$)", line) and "|" not in line.split("#")[0]:
            yield line


def check_document(path, root, commands, top_names):
    text = path.read_text()
    yield from filter(None, (check_link(path, target) for target in LINK.findall(FENCE.sub("", text))))
    yield from filter(None, map(commands.check, command_lines(text)))
    words = [w for span in SPAN.findall(FENCE.sub("", text)) for w in span.split()]
    words += [w for language, body in FENCE.findall(text) if language in SHELL for w in body.split()]
    for word in sorted(set(w.strip("\"'(),;:") for w in words)):
        if is_path_of_ours(word, top_names):
            name = word.removeprefix("./").rstrip("/")
            # src/ is the include root, so that base/result.h names src/base/result.h.
            if not (root / name).exists() and not (root / "src" / name).exists():
                yield f"`{word}`: there is no such file"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    commands = Commands(root, sys.argv[2])
    if commands.help("tandem", ()) is None:
        sys.exit(f"{sys.argv[2]} --help failed; build it first")
    documents = [p for p in project_files(root) if p.suffix == ".md"]
    top_names = {p.name for folder in (root, root / "src") for p in folder.iterdir()}
    problems = [f"{path.relative_to(root)}: {problem}"
                for path in documents for problem in check_document(path, root, commands, top_names)]
    problems += check_index(root)
    finish(problems, f"{len(documents)} documents name only what exists")


if __name__ == "__main__":
    main()
