"""Workers that die in a chosen phase of a step, or while they write a checkpoint: the weights are those of an undisturbed run."""
import json
import os
import re
import signal
import subprocess

from harness import TandemTest, argument_of, bin_directory, children_of, is_gone, main, wait_for, whole_lines
from jobs import DIGITS

JOB = f"""\
name = "phases"
{DIGITS}epochs = 1000000
eval_every_epochs = 1000000
[cluster]
lanes = 4
workers = 2
max_restarts = 100
[checkpoint]
every_steps = 50
"""
# The functions of the worker in which it shall die, and which worker: 0 is the one that writes.
PHASES = {
    "forward": (r"::Linear::forward\(", 1),
    "backward": (r"::Linear::backward\(", 1),
    "reduction": (r"tandem::collective::.*::gather\(", 1),
    "update": (r"::adam_kernel\(", 1),
    "checkpoint": (r"tandem::checkpoint::make_manifest\(", 0),
}
# A sum is another with each engine; TANDEM_TEST_PHASES=all tries all phases with both.
ENGINES = {"shm": ("forward", "reduction", "update", "checkpoint"), "gloo": ("backward", "reduction")}
if os.environ.get("TANDEM_TEST_PHASES") == "all":
    ENGINES = {engine: tuple(PHASES) for engine in ENGINES}
# kill(getpid(), SIGKILL) in machine code for x86-64.
SUICIDE = bytes.fromhex("b827000000 0f05 89c7 be09000000 b83e000000 0f05")


def functions():
    """The worker's functions and their addresses in its file."""
    done = subprocess.run(["nm", "-C", bin_directory() / "tandem-worker"], check=True, capture_output=True, text=True,
                          timeout=60)
    rows = (line.split(" ", 2) for line in done.stdout.splitlines())
    return [(row[2], int(row[0], 16)) for row in rows if len(row) == 3 and row[0] and row[1] in "tTwW"]


class Phases(TandemTest):
    known = None

    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)
        Phases.known = Phases.known or functions()

    def events(self, out, kind):
        lines = whole_lines(self.scratch / out / "events.jsonl")
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def workers(self, process):
        """The pids of the workers that live, by number: the first is the first of its group, too."""
        found = {argument_of(pid, "--number"): pid for pid in children_of(process.pid) if not is_gone(pid)}
        return [pid for number, pid in sorted((int(number), pid) for number, pid in found.items() if number)]

    def doom(self, pid, pattern):
        """From now on the worker kills itself where one of these functions begins."""
        with open(f"/proc/{pid}/maps") as maps:
            base = next(int(line.partition("-")[0], 16) for line in maps if line.rstrip().endswith("/tandem-worker"))
        places = [address for name, address in Phases.known if re.search(pattern, name) and "[clone .cold" not in name]
        self.assertNotEqual(places, [], f"the worker has no function {pattern}")
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for place in places:
                memory.seek(base + place)
                memory.write(SUICIDE)

    def test_a_death_in_any_phase_changes_nothing(self):
        for engine, phases in ENGINES.items():
            with self.subTest(engine=engine):
                process = self.start("train", self.job, "--out", engine, "-q", f"cluster.engine={engine}")
                wait_for(lambda: self.events(engine, "checkpoint"), "a checkpoint")
                for deaths, phase in enumerate(phases, start=1):
                    pattern, rank = PHASES[phase]
                    with self.subTest(phase=phase):
                        self.doom(self.workers(process)[rank], pattern)
                        wait_for(lambda: len(self.events(engine, "lost")) == deaths, f"a death in the phase {phase}")
                        self.assertIn("SIGKILL", self.events(engine, "lost")[-1]["detail"])
                        wait_for(lambda: len(self.events(engine, "joined")) == deaths, "the replacement")
                self.assertEqual(self.events(engine, "rollback"), [])
                process.send_signal(signal.SIGINT)
                code, _, errors = self.finish(process)
                self.assertEqual(code, 130, errors)
                report = self.report(engine)
                self.tandem("train", self.job, "--out", f"{engine}-truth", "-q", "cluster.workers=1",
                            f"train.steps={report['steps']}")
                self.assertEqual(report["weights_hash"], self.report(f"{engine}-truth")["weights_hash"])
                self.tandem("checkpoint", "verify", engine)


if __name__ == "__main__":
    main()
