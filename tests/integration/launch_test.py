"""Ranks that others start: --hosts, and what the environment says."""
import os
import signal
import socket
import stat

from harness import LONG, PATIENCE_S, TandemTest, is_gone, main, wait_for


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def workers():
    """Processes of all workers on this machine that train in one of our scratch directories."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"tandem-worker") and not is_gone(int(pid)):
            found.append((int(pid), b" ".join(words).decode()))
    return found


class Hosts(TandemTest):
    """A shell of this machine stands where ssh would reach another one: --ssh is whatever runs a command there."""

    def setUp(self):
        super().setUp()
        reach = self.scratch / "reach"
        reach.write_text('#!/bin/sh\nshift\nexec /bin/sh -c "$1"\n')
        reach.chmod(reach.stat().st_mode | stat.S_IXUSR)
        self.hosts = self.scratch / "hosts.txt"
        self.hosts.write_text("localhost slots=2\nlocalhost  # once more\n")
        self.there = ["--hosts", self.hosts, "--ssh", reach]

    def test_trains_on_them_with_the_bits_of_one_process(self):
        self.tandem("train", self.job, "cluster.lanes=3", "--out", "one")
        self.tandem("train", self.job, "cluster.lanes=3", "--out", "many", *self.there)
        one, many = self.report("one"), self.report("many")
        self.assertEqual(many["cluster"]["workers"]["start"], 3)
        self.assertEqual(one["weights_hash"], many["weights_hash"])
        self.assertEqual(one["eval"], many["eval"])

    def test_ends_everybody_when_it_is_interrupted(self):
        process = self.start("train", self.job, *LONG, "--quiet", "--out", "run", *self.there)
        metrics = self.scratch / "run" / "metrics.jsonl"
        wait_for(lambda: metrics.is_file() and metrics.read_text(), "the first step")
        ours = [pid for pid, words in workers() if "--workers 3" in words]
        self.assertGreaterEqual(len(ours), 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130)
        wait_for(lambda: all(is_gone(pid) for pid in ours), "the end of every worker")

    def test_says_when_a_host_cannot_be_reached(self):
        reach = ["--hosts", self.hosts, "--ssh"]
        for command, code, words in (("true #", 5, "rank 0 on localhost could not be started"),
                                     ("false #", 5, "ended with exit code 1;"),
                                     ("sleep 60 #", 6, "could not be reached in time")):
            with self.subTest(ssh=command):
                done = self.tandem("train", self.job, *reach, command, "--start-timeout", "1", "--json", code=code)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_says_what_is_wrong_with_the_file(self):
        self.hosts.write_text("localhost\nlocalhost slots=none\n")
        done = self.tandem("train", self.job, *self.there, code=2)
        self.assertIn("hosts.txt:2: `slots=none` is not understood", done.stderr)

    def test_what_the_ranks_would_refuse_is_refused_before_ssh(self):
        reach = ["--hosts", self.hosts, "--ssh", "touch reached #"]
        for wrong, words in (("cluster.strategy=ps", "not under `mpirun`, `srun`, RANK or --hosts"),
                             ("cluster.lanes=2", "3 workers cannot share 2 lanes")):
            self.assertIn(words, self.tandem("train", self.job, wrong, *reach, code=2).stderr)
        self.assertFalse((self.scratch / "reached").exists())


class Environment(TandemTest):
    def start_rank(self, rank, size, port, *arguments):
        place = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return self.start("train", self.job, *arguments, env=self.environment(**place))

    def test_ranks_become_one_run(self):
        port = free_port()
        ranks = [self.start_rank(rank, 2, port, "cluster.lanes=4", "--out", "run") for rank in range(2)]
        for process in ranks:
            process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 0)
        self.tandem("train", self.job, "cluster.lanes=4", "--out", "one")
        self.assertEqual(self.report("run")["weights_hash"], self.report("one")["weights_hash"])

    def test_a_rank_that_is_given_twice_is_refused_and_disturbs_nobody(self):
        port = free_port()
        first = [self.start_rank(rank, 3, port, "cluster.lanes=3", "--out", "run") for rank in (0, 1)]
        # Whichever of the two comes second.
        third = self.start_rank(1, 3, port, "cluster.lanes=3")
        wait_for(lambda: any(process.poll() is not None for process in (first[1], third)), "one to be refused")
        refused, stays = (third, first[1]) if third.poll() is not None else (first[1], third)
        self.assertIn("rank 1 is there already: process", refused.communicate(timeout=PATIENCE_S)[1])
        self.assertEqual(refused.returncode, 2)
        for process in (first[0], stays, self.start_rank(2, 3, port, "cluster.lanes=3")):
            _, errors = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 0, errors)

    def test_a_place_that_is_not_whole_is_refused(self):
        done = self.tandem("train", self.job, code=2, env=self.environment(RANK="0"))
        self.assertIn("RANK but not WORLD_SIZE", done.stderr)

    def test_parameter_servers_are_refused_where_ranks_are_started_by_others(self):
        ranks = self.environment(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
        done = self.tandem("train", self.job, "--out", "run", "cluster.strategy=ps", env=ranks, code=2)
        self.assertIn("cluster.strategy=allreduce", done.stderr)
        self.assertFalse((self.scratch / "run").exists())

    def test_mpi_without_mpirun_is_refused_before_anything_is_made(self):
        done = self.tandem("train", self.job, "cluster.workers=2", "cluster.engine=mpi", code=2)
        self.assertIn("mpirun -n 2 tandem train", done.stderr)
        self.assertFalse((self.scratch / "runs").exists())

    def test_more_ranks_than_lanes_are_refused(self):
        place = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        done = self.tandem("train", self.job, "cluster.lanes=2", code=2, env=self.environment(**place))
        self.assertIn("3 workers cannot share 2 lanes", done.stderr)


if __name__ == "__main__":
    main()
