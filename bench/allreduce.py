"""All-reduce on one host against Gloo and OpenMPI: allreduce.py [--rounds N] [--build DIR] [--json]

Ours on shared memory, Gloo's own and OpenMPI's own take turns in one command; each measures every size. Prints bus bandwidth
(GB/s) of the best round of each and the ratios; exits with 1 when a ratio is below its target.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

KIB, MIB = 1 << 10, 1 << 20
SIZES = [KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB]
# Ranks, sizes from, and the least ratio to each peer.
LARGE = {2: {"gloo": 10.0, "openmpi": 4.0}, 4: {"gloo": 5.0}}
SMALL = {2: {"openmpi": 1.0}, 4: {}}


def target(ranks, size, peer):
    return (LARGE if size >= 256 * KIB else SMALL)[ranks].get(peer)


def commands(build, ranks):
    sizes = ",".join(map(str, SIZES))
    return {
        "ours": [build / "bin" / "tandem", "bench", "allreduce", "--ranks", ranks, "--bytes", sizes, "--engines", "shm",
                 "--json"],
        "gloo": [build / "bin" / "tandem-bench-gloo", ranks, sizes],
        "openmpi": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks, build / "bin" / "tandem-bench-mpi",
                    sizes],
    }


def measure(command):
    """Bus bandwidth by size."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "OMPI_MCA_btl_base_warn_component_unused": "0"})
    if done.returncode != 0:
        sys.exit(f"error: {command[0]} ended with exit code {done.returncode}:\n{done.stderr}")
    text = done.stdout.strip()
    rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    return {row["bytes"]: row["bus_gb_s"] for row in rows}


def compare(build, ranks, rounds):
    best = {}
    for _ in range(rounds):
        for name, command in commands(build, ranks).items():
            for size, speed in measure(command).items():
                key = (name, size)
                best[key] = max(best.get(key, 0), speed)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4], choices=list(LARGE))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, missed = [], False
    for ranks in options.ranks:
        best = compare(options.build, ranks, options.rounds)
        for size in SIZES:
            row = {"ranks": ranks, "bytes": size, **{name: best[name, size] for name in ("ours", "gloo", "openmpi")}}
            for peer in ("gloo", "openmpi"):
                row[f"ratio_{peer}"] = row["ours"] / row[peer]
                least = target(ranks, size, peer)
                row[f"target_{peer}"] = least
                missed = missed or (least is not None and row[f"ratio_{peer}"] < least)
            rows.append(row)
    if options.json:
        print(json.dumps(rows, indent=2))
        return int(missed)
    print(f"{'ranks':>5} {'bytes':>10} {'ours':>8} {'gloo':>8} {'openmpi':>8}   x gloo (target)   x openmpi (target)")
    for row in rows:
        line = f"{row['ranks']:>5} {row['bytes']:>10} {row['ours']:>8.3f} {row['gloo']:>8.3f} {row['openmpi']:>8.3f}"
        for peer in ("gloo", "openmpi"):
            least = row[f"target_{peer}"]
            mark = "" if least is None else f"({least:g})" + ("!" if row[f"ratio_{peer}"] < least else "")
            line += f"   {row[f'ratio_{peer}']:>8.1f} {mark:8}"
        print(line)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
