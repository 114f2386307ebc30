"""What a master spends on nodes that only beat: nodes.py [--nodes N] [--seconds S] [--build DIR] [--json]

Starts `tandem master` and one program that connects as so many nodes, each with its heartbeat, and measures the master's processor time.
Exits with 1 when it is above 30 % of one core.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = 0.30
PATIENCE_S = 60


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def await_value(value, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := value()):
        if time.monotonic() > deadline:
            sys.exit(f"error: waited {PATIENCE_S} s for {what}")
        time.sleep(0.05)
    return found


def measure(options):
    # Every node is a descriptor here and one there.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    programs = ROOT / options.build / "bin"
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "master.log"
        secret = pathlib.Path(scratch) / "secret"
        subprocess.run([programs / "tandem", "master", "--init", "--secret", secret], check=True, capture_output=True)
        with open(log, "w") as errors:
            master = subprocess.Popen([programs / "tandem", "master", "--secret", secret, "--listen", "127.0.0.1:0", "--http",
                                       "127.0.0.1:0"], cwd=scratch, stderr=errors)
        nodes = None
        try:
            found = await_value(lambda: re.search(r"connect to \S+:(\d+); HTTP is at (\S+:\d+)", log.read_text()), "the master")
            nodes = subprocess.Popen([programs / "tandem-bench-nodes", found[1], secret, str(options.nodes)])

            def connected():
                text = urllib.request.urlopen(f"http://{found[2]}/metrics", timeout=10).read().decode()
                return int(re.search(r"^tandem_nodes (\d+)", text, re.MULTILINE)[1]) == options.nodes
            await_value(connected, f"{options.nodes} nodes")
            before, began = cpu_seconds(master.pid), time.monotonic()
            time.sleep(options.seconds)
            share = (cpu_seconds(master.pid) - before) / (time.monotonic() - began)
            if not connected():
                sys.exit("error: not all nodes stayed")
            return {"nodes": options.nodes, "core": share, "target": TARGET, "resident_mb": resident_mb(master.pid)}
        finally:
            for process in filter(None, (nodes, master)):
                process.terminate()
                process.wait(timeout=PATIENCE_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options)
    print(json.dumps(result) if options.json else
          f"{result['nodes']} nodes cost the master {result['core']:.1%} of a core and {result['resident_mb']:.0f} MB; "
          f"target {TARGET:.0%}")
    return 0 if result["core"] <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
