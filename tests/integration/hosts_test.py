"""Ranks on several hosts: network namespaces of their own, joined by a bridge, with a slow or a cut network, too.

The script starts itself again in a world of its own (world.py). Needs `unshare` and `nsenter` (util-linux) and `ip` and
`tc` (iproute2).
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from harness import PATIENCE_S, TandemTest, children_of, is_gone, wait_for
from hosts import NAMESPACES, make_bridge, make_hosts
from world import main

PORT = 29500  # No other world can have taken it.

# 301,066 parameters: what else is sent does not matter beside 1.2 MB of gradients.
JOB = """\
name = "hosts"
[model]
kind = "mlp"
hidden = [512, 512]
[data]
source = "digits"
[train]
steps = 6
batch = 24
optimizer = { kind = "sgd", lr = 0.05, momentum = 0.9 }
"""
GRADIENT_BYTES = (64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10) * 4
STEPS = 6
ENDLESS = ["train.steps=1000000000", "train.eval_every_epochs=1000000000", "train.report_every_s=0.05",
           "cluster.lanes=3"]
SMALL = "model.hidden=[64]"  # For short steps.


class HostsTest(TandemTest):
    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)
        # Of the ranks that record nothing.
        self.temporary = self.scratch / "tmp"
        self.temporary.mkdir()
        make_bridge(self)

    def start_ranks(self, hosts, *arguments, out="run"):
        """One rank on each host, in order."""
        return [self.start_rank(host, hosts[0].address, rank, len(hosts), *arguments, out=out)
                for rank, host in enumerate(hosts)]

    def start_rank(self, host, master, rank, size, *arguments, out="run"):
        process = subprocess.Popen(
            [*host.inside(), self.program, "train", self.job, "-q", "--json", "--out", out, *arguments],
            cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR=master, MASTER_PORT=str(PORT),
                                 TMPDIR=str(self.temporary)))
        self.addCleanup(lambda: [stream.close() for stream in (process.stdout, process.stderr)])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def finished(self, ranks):
        """The report of ranks that end well."""
        results = [self.finish(process) for process in ranks]
        self.assertEqual([code for code, _, _ in results], [0] * len(ranks), results)
        self.assertEqual([output for _, output, _ in results[1:]], [""] * (len(ranks) - 1))
        self.assertEqual(list(self.temporary.iterdir()), [])
        return json.loads(results[0][1])

    def alone(self, lanes):
        """The report of one process that has all lanes."""
        arguments = ["--out", f"alone-{lanes}", f"cluster.lanes={lanes}"]
        return json.loads(self.tandem("train", self.job, "-q", "--json", *arguments).stdout)

    def start_long(self, hosts, *arguments):
        """Ranks that train. Returns them and their workers' pids."""
        ranks = self.start_ranks(hosts, *ENDLESS, *arguments)
        metrics = self.scratch / "run/metrics.jsonl"

        def trains():
            self.assertEqual([process.poll() for process in ranks], [None] * len(ranks))
            return metrics.exists() and metrics.read_text()
        wait_for(trains, "the first progress")
        workers = [children_of(process.pid) for process in ranks]
        self.assertEqual([len(pids) for pids in workers], [1] * len(ranks))
        return ranks, [pids[0] for pids in workers]

    def ended(self, process, since, within_s):
        """The exit code and errors of a rank that ends by itself in time."""
        code, _, errors = self.finish(process)
        self.assertLess(time.monotonic() - since, within_s, f"the rank took too long to end\n{errors}")
        return code, errors


class Truth(HostsTest):
    def test_hosts_come_to_the_weights_of_one_process(self):
        truth = self.alone(4)
        hosts = make_hosts(self, 4)
        for count in (2, 3, 4):
            with self.subTest(hosts=count):
                report = self.finished(self.start_ranks(hosts[:count], "cluster.lanes=4", out=f"run-{count}"))
                self.assertEqual((report["cluster"]["engine"], report["cluster"]["lanes"]), ("gloo", 4))
                self.assertEqual(report["cluster"]["workers"], {"start": count, "end": count})
                self.assertEqual(report["weights_hash"], truth["weights_hash"])
                self.assertEqual(report["eval"], truth["eval"])

    def test_ranks_on_a_host_add_up_before_the_network(self):
        hosts = make_hosts(self, 2)
        for lanes in (4, 6):
            with self.subTest(lanes=lanes):
                ranks = [hosts[0], hosts[0], hosts[1], hosts[1]]
                report = self.finished(self.start_ranks(ranks, f"cluster.lanes={lanes}", out=f"run-{lanes}"))
                self.assertEqual(report["cluster"]["engine"], "gloo")
                self.assertEqual(report["weights_hash"], self.alone(lanes)["weights_hash"])
                # Only the first of a host's ranks sends, as one of two.
                expected = GRADIENT_BYTES * STEPS
                self.assertAlmostEqual(report["bytes"]["sent"]["gradients"] / expected, 1, delta=0.02)

    def test_the_first_host_may_know_itself_as_loopback(self):
        # As names do in many a hosts file.
        hosts = make_hosts(self, 2)
        ranks = [self.start_rank(hosts[0], "127.0.0.1", 0, 2, "cluster.lanes=4"),
                 self.start_rank(hosts[1], hosts[0].address, 1, 2, "cluster.lanes=4")]
        self.assertEqual(self.finished(ranks)["cluster"]["engine"], "gloo")

    def test_ranks_on_one_host_share_memory(self):
        host, = make_hosts(self, 1)
        ranks = [self.start_rank(host, host.address, rank, 2, "cluster.lanes=4") for rank in range(2)]
        self.assertEqual(self.finished(ranks)["cluster"]["engine"], "shm")

    def test_shared_memory_between_hosts_is_refused(self):
        for process in self.start_ranks(make_hosts(self, 2), "cluster.lanes=4", "cluster.engine=shm"):
            code, _, errors = self.finish(process)
            self.assertEqual(code, 2, errors)
            self.assertIn("engine `shm` needs all workers on one host", errors)

    def test_a_slow_network_carries_what_a_ring_would(self):
        hosts = make_hosts(self, 3)
        for host in hosts:
            # Not every kernel has netem; without it the network is narrow but not far.
            self.assertTrue(host.shape("netem", "delay", "20ms", "rate", "100mbit") or
                            host.shape("tbf", "rate", "100mbit", "burst", "32kb", "latency", "400ms"),
                            "the kernel has neither netem nor tbf")
        report = self.finished(self.start_ranks(hosts, "cluster.lanes=3"))
        self.assertEqual(report["weights_hash"], self.alone(3)["weights_hash"])
        # Rank 0 records its own worker.
        expected = 2 * (3 - 1) / 3 * GRADIENT_BYTES * STEPS
        for direction in ("sent", "received"):
            self.assertAlmostEqual(report["bytes"][direction]["gradients"] / expected, 1, delta=0.02, msg=direction)
        # At 100 Mbit/s, so the shaping was real.
        self.assertGreater(report["train_s"], expected * 8 / 100e6 * 0.8)


class Faults(HostsTest):
    def cut(self, victim):
        timeout_s = 2
        hosts = make_hosts(self, 3)
        ranks, workers = self.start_long(hosts, SMALL, f"cluster.timeout_s={timeout_s}")
        since = time.monotonic()
        hosts[victim].cut()
        for rank, process in enumerate(ranks):
            with self.subTest(rank=rank):
                code, errors = self.ended(process, since, timeout_s + 3)
                self.assertEqual(code, 6, errors)
                # Whoever still hears the other one knows whom both miss.
                blamed = rf"[^{rank}]" if rank == victim else victim
                self.assertRegex(errors, rf"step \d+: .*worker {blamed} \(pid \d+ on host-{blamed}\)")
                self.assertIn("late", errors)
        self.assertTrue(all(map(is_gone, workers)))
        self.assertEqual(self.report("run")["error"]["code"], "timeout")

    def test_a_host_without_network_is_late_for_the_others_and_they_for_it(self):
        self.cut(2)

    def test_so_is_the_first_host(self):
        self.cut(0)

    def killed(self, victim, *arguments, shaping=None):
        hosts = make_hosts(self, 3)
        for host in hosts:
            self.assertTrue(shaping is None or host.shape(*shaping))
        ranks, workers = self.start_long(hosts, *arguments)
        since = time.monotonic()
        ranks[victim].send_signal(signal.SIGKILL)
        os.kill(workers[victim], signal.SIGKILL)
        for rank in sorted({0, 1, 2} - {victim}):
            with self.subTest(rank=rank):
                code, errors = self.ended(ranks[rank], since, 2)
                self.assertEqual(code, 5, errors)
                name = rf"worker {victim} \(pid {workers[victim]} on host-{victim}\)"
                self.assertRegex(errors, rf"step \d+: .*{name} is gone")
        self.assertEqual(self.finish(ranks[victim])[0], -signal.SIGKILL)
        self.assertTrue(all(map(is_gone, workers)))

    def test_a_killed_rank_is_named_by_the_others(self):
        self.killed(2, SMALL)

    def test_so_is_the_first_rank(self):
        self.killed(0, SMALL)

    def start_two_by_two(self, *arguments):
        hosts = make_hosts(self, 2)
        return self.start_long([hosts[0], hosts[0], hosts[1], hosts[1]], SMALL, "cluster.lanes=4", *arguments)

    def test_a_rank_that_shares_its_host_is_named_by_all_when_it_is_killed(self):
        ranks, workers = self.start_two_by_two()
        since = time.monotonic()
        ranks[3].send_signal(signal.SIGKILL)
        os.kill(workers[3], signal.SIGKILL)
        for rank in range(3):
            with self.subTest(rank=rank):
                code, errors = self.ended(ranks[rank], since, 2)
                self.assertEqual(code, 5, errors)
                self.assertRegex(errors, rf"step \d+: .*worker 3 \(pid {workers[3]} on host-1\) (is gone|ended)")
        self.assertEqual(self.finish(ranks[3])[0], -signal.SIGKILL)

    def test_a_rank_that_shares_its_host_is_named_by_all_when_it_is_late(self):
        timeout_s = 2
        ranks, workers = self.start_two_by_two(f"cluster.timeout_s={timeout_s}")
        since = time.monotonic()
        os.kill(workers[3], signal.SIGSTOP)
        for rank in range(3):
            with self.subTest(rank=rank):
                code, errors = self.ended(ranks[rank], since, timeout_s + 4)
                self.assertEqual(code, 6, errors)
                self.assertRegex(errors, rf"step \d+: .*worker 3 \(pid {workers[3]} on host-1\).*late")

    def test_a_rank_that_is_killed_in_the_middle_of_a_message_is_named(self):
        # A step takes more than half a second, nearly all of it on the wire, so that every rank has half of a message.
        self.killed(2, "cluster.timeout_s=12", shaping=["tbf", "rate", "20mbit", "burst", "16kb", "latency", "100ms"])


if __name__ == "__main__":
    main(NAMESPACES)
