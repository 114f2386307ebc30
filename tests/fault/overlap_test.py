"""On a narrow network the next forward begins while results are on their way. Whoever is killed then, the run ends as if nothing
had happened. Runs in a world of its own, whose loopback is narrow."""
import random
import subprocess

from harness import PATIENCE_S, wait_for
from hosts import ip
from jobs import DIGITS, SERVED
from server_faults import FaultsTest
from world import main

NARROW = ["tbf", "rate", "2gbit", "burst", "128kb", "latency", "4ms"]


class OverlapTest(FaultsTest):
    # Most parameters are in the second layer: they are on their way while the first one computes.
    text = f"""\
name = "overlap"
{DIGITS.replace("[48, 48]", "[400, 400]")}epochs = 2
{SERVED}[checkpoint]
every_steps = 40
[ps]
transport = "tcp"
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ip("link", "set", "lo", "up")
        subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", *NARROW], check=True, timeout=PATIENCE_S)

    def truth_with(self, *arguments):
        self.tandem("train", self.job, "--out", "other", "-q", "cluster.workers=1", "cluster.strategy=allreduce", *arguments)
        return self.essence("other")

    def test_an_undisturbed_run(self):
        for arguments in ([], ["cluster.replicas=2"], ["cluster.workers=1", "cluster.servers=1"], ["train.clip.norm=0.5"]):
            with self.subTest(arguments=arguments):
                out = "-".join(["run", *arguments])
                self.tandem("train", self.job, "--out", out, "-q", *arguments)
                truth = self.truth
                if "train.clip.norm=0.5" in arguments:
                    truth = self.truth_with(*arguments)
                self.assertEqual(self.essence(out), truth)

    def test_workers_killed_at_any_moment(self):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        longer = "train.epochs=6"
        process = self.begin("run", longer)
        for count in range(1, 4):
            self.await_steps(process, "run", self.step("run") + chance.randrange(3, 12))
            self.signal([chance.choice(self.pids(process, "--number"))])
            self.await_recoveries(process, "run", count)
            # Who dies before it has joined is no loss to recover from.
            wait_for(lambda: len(self.events("run", "joined")) >= count, f"{count} workers in place of others")
        self.assert_ends(process, "run")
        self.assertEqual(self.essence("run"), self.truth_with(longer))
        self.assertEqual(len(self.events("run", "lost")), 3, f"seed {seed}")

    def test_a_killed_server(self):
        process = self.begin("run")
        self.signal(self.pids(process, "--address")[:1])
        self.assert_same_end(process, "run")
        self.assertEqual(len(self.events("run", "rollback")), 1)


if __name__ == "__main__":
    main(["--net"])
