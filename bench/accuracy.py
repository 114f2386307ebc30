"""Accuracy of the example jobs on real data: accuracy.py [--build DIR] [NAME...]

Trains examples/NAME.toml and compares what it reaches on the test part with its target; fetches data that is missing.
Exits with 1 when a target is missed.
"""
import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Example(typing.NamedTuple):
    data: str  # A name that `./dev data` knows.
    metric: str  # Of the report's `eval`.
    target: typing.Callable[[], float]  # The least accuracy, or the largest loss or error; called when the data is there.

    def reached(self, result, target):
        return result >= target if self.metric == "accuracy" else result <= target


def austen_loss():
    """Three quarters of the loss of a model that knows how often each character occurs and nothing else."""
    counts = collections.Counter((ROOT / "data/austen/austen.txt").read_text(encoding="utf-8"))
    total = sum(counts.values())
    return 0.75 * -sum(n / total * math.log(n / total) for n in counts.values())


EXAMPLES = {
    "mnist-softmax": Example("mnist", "accuracy", lambda: 0.92),
    "mnist-cnn": Example("mnist", "accuracy", lambda: 0.99),
    "austen-gpt": Example("austen", "loss", austen_loss),
    "movielens": Example("movielens", "rmse", lambda: 0.90),
    "wide-deep": Example("movielens", "rmse", lambda: 0.90),
}


def run(command, **options):
    """Runs the command; ends the benchmark with its exit code when it fails."""
    result = subprocess.run([str(word) for word in command], **options)
    if result.returncode:
        print(f"error: {' '.join(map(str, result.args))} ended with exit code {result.returncode}", file=sys.stderr)
        sys.exit(result.returncode if result.returncode > 0 else 1)
    return result


def train(tandem, name, metric):
    """The metric on the test part, and the seconds from start to end."""
    with tempfile.TemporaryDirectory(prefix="tandem-accuracy-") as scratch:
        job = ROOT / "examples" / f"{name}.toml"
        start = time.monotonic()
        output = run([tandem, "train", job, "--json", "-q", "--out", pathlib.Path(scratch) / "run"],
                     stdout=subprocess.PIPE, text=True).stdout
        return json.loads(output)["eval"][metric], time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(EXAMPLES))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in EXAMPLES]
    if unknown:
        parser.error(f"unknown example {unknown[0]!r}; there are: {', '.join(EXAMPLES)}")
    tandem = arguments.build.resolve() / "bin" / "tandem"
    if not tandem.is_file():
        parser.error(f"there is no {tandem}; `./dev build` makes it")
    missed = False
    print(f"{'name':14} {'metric':8} {'result':>7} {'target':>10} {'seconds':>8}")
    for name in arguments.names or EXAMPLES:
        example = EXAMPLES[name]
        run([ROOT / "dev", "data", example.data], stdout=sys.stderr)
        target = example.target()
        result, seconds = train(tandem, name, example.metric)
        reached = example.reached(result, target)
        missed = missed or not reached
        bound = f"{'>=' if example.metric == 'accuracy' else '<='} {target:.4f}"
        mark = "" if reached else "  target missed"
        print(f"{name:14} {example.metric:8} {result:7.4f} {bound:>10} {seconds:8.1f}{mark}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
