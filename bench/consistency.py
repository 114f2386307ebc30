"""What waiting costs when a worker is slow: consistency.py [--epochs N] [--build DIR] [--json]

Trains an mlp on MNIST through one parameter server with two workers, one of which is stopped for three quarters of the time, in
each consistency. Prints seconds of training and accuracy; exits with 1 unless `ssp` and `asp` are faster than `bsp`, within half
a point of its accuracy, and `ssp` within its bound of staleness.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STALENESS = 3
JOB = """\
name = "consistency"
[model]
kind = "mlp"
hidden = [256]
[data]
source = "idx"
images = "{data}/train-images-idx3-ubyte"
labels = "{data}/train-labels-idx1-ubyte"
test_images = "{data}/t10k-images-idx3-ubyte"
test_labels = "{data}/t10k-labels-idx1-ubyte"
[train]
epochs = {epochs}
batch = 128
seed = 1
optimizer = {{ kind = "sgd", lr = 0.1, momentum = 0.5 }}
[cluster]
workers = 2
strategy = "ps"
[ps]
staleness = {staleness}
"""


def worker_pid(parent, number):
    """The process that is worker `number`, once it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in children:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"--number" in words and words[words.index(b"--number") + 1] == str(number).encode():
                return int(pid)
        time.sleep(0.01)
    sys.exit("error: no worker was started within a minute")


def slow_down(pid, over):
    """Lets the process run for a quarter of the time until `over` is set."""
    try:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.015)
            os.kill(pid, signal.SIGCONT)
            over.wait(0.005)
    except ProcessLookupError:
        pass


def train(tandem, job, consistency, out):
    command = [tandem, "train", job, "-q", "--json", "--out", out, f"ps.consistency={consistency}"]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    over = threading.Event()
    slower = threading.Thread(target=slow_down, args=(worker_pid(process.pid, 1), over))
    slower.start()
    output = process.communicate()[0]
    over.set()
    slower.join()
    if process.returncode:
        sys.exit(f"error: {consistency} ended with exit code {process.returncode}")
    return json.loads(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    data = ROOT / "data" / "mnist"
    subprocess.run([ROOT / "dev", "data", "mnist"], check=True, stdout=subprocess.DEVNULL)
    results = {}
    with tempfile.TemporaryDirectory(prefix="tandem-consistency-") as scratch:
        job = pathlib.Path(scratch) / "job.toml"
        job.write_text(JOB.format(data=data, epochs=arguments.epochs, staleness=STALENESS))
        for consistency in ("bsp", "ssp", "asp"):
            report = train(arguments.build / "bin" / "tandem", job, consistency, pathlib.Path(scratch) / consistency)
            behind = report["staleness"]["steps"] if report["staleness"] else [report["steps"] * report["cluster"]["lanes"]]
            results[consistency] = {
                "train_s": report["train_s"], "wall_s": report["wall_s"], "accuracy": report["eval"]["accuracy"],
                "samples": report["samples"], "behind_most": len(behind) - 1,
                "behind_mean": sum(steps * count for steps, count in enumerate(behind)) / max(1, sum(behind))}
    if arguments.json:
        print(json.dumps(results))
    else:
        print("consistency   train s    wall s   accuracy   samples   steps behind (mean, most)")
        for name, result in results.items():
            print(f"{name:11} {result['train_s']:9.2f} {result['wall_s']:9.2f} {100 * result['accuracy']:9.2f}% {result['samples']:9} "
                  f"  {result['behind_mean']:.2f}, {result['behind_most']}")
    bsp = results["bsp"]
    good = all(results[name]["wall_s"] < bsp["wall_s"] and results[name]["accuracy"] > bsp["accuracy"] - 0.005
               and results[name]["samples"] == bsp["samples"] for name in ("ssp", "asp"))
    sys.exit(0 if good and results["ssp"]["behind_most"] <= STALENESS else 1)


if __name__ == "__main__":
    main()
