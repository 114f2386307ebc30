"""Writes Jane Austen's novels as one plain text to stdout: austen.py RDATA, where RDATA.rdx and RDATA.rdb are the lazy-load
database of R's package janeaustenr (tools/rdata.py)."""
import sys

import rdata

NOVELS = ["sensesensibility", "prideprejudice", "mansfieldpark", "emma", "northangerabbey", "persuasion"]


def main():
    for lines in rdata.read(sys.argv[1], NOVELS):
        sys.stdout.write("\n".join(line or "" for line in lines) + "\n\n")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        main()
    except rdata.ERRORS as problem:
        sys.exit(f"error: cannot read {sys.argv[1]}: {problem}")
