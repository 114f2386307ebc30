"""Runs a fuzz target from its corpus for a while: run_fuzz.py PROGRAM CORPUS SECONDS

What the fuzzer finds new goes to a temporary directory. An input that crashes the target is kept beside the program and
printed, so that it can join the corpus when the bug is fixed.
"""
import base64
import pathlib
import subprocess
import sys
import tempfile


def main():
    program, corpus, seconds = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    if not any(corpus.iterdir()):
        sys.exit(f"{corpus} is empty; a target needs something to start from")
    with tempfile.TemporaryDirectory(prefix="tandem-fuzz-") as found:
        kept = pathlib.Path(found) / "kept-"
        command = [program, f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=5", "-seed=1", "-verbosity=1",
                   "-print_final_stats=1", f"-artifact_prefix={kept}", found, corpus]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode == 0:
            print("\n".join(line for line in done.stderr.splitlines() if "stat::number_of_executed" in line))
            return
        print(done.stderr[-20000:])
        for artifact in pathlib.Path(found).glob("kept-*"):
            content = artifact.read_bytes()
            saved = program.with_name(f"{program.name}-{artifact.name.removeprefix('kept-')}")
            saved.write_bytes(content)
            print(f"input kept as {saved}; base64: {base64.b64encode(content[:10000]).decode()}")
    sys.exit(f"{program.name} failed with exit code {done.returncode}")


if __name__ == "__main__":
    main()
