"""Nothing in the project names one machine or is left for later: check_words.py ROOT"""
import re

from sources import finish, project_files, root_argument

# The patterns are split so that this file does not match itself.
RULES = [
    (re.compile(r"(?<![\w./-])/(?:work" + r"|farm|root|home/\w+)/"), "an absolute path of one machine"),
    (re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"), "left for later; do it or open an issue"),
    (re.compile(r"^(?:<{7}|>{7}) ", re.M), "a merge conflict"),
]


def main():
    root = root_argument()
    problems = []
    files = project_files(root)
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for rule, why in RULES:
            for match in rule.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{path.relative_to(root)}:{line}: {match.group().strip()}: {why}")
    finish(problems, f"{len(files)} files are clean")


if __name__ == "__main__":
    main()
