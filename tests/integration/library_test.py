"""Tandem as somebody else's library: installed, found by CMake, and used by examples/ddp on several processes."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from harness import PATIENCE_S, bin_directory, main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/ddp"
RANK = re.compile(r"rank (\d+) of (\d+) engine (\w+) weights ([0-9a-f]{16})")
LOSS = re.compile(r"step (\d+) loss ([0-9.]+)")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, **options)
    if done.returncode:
        raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")


def build_example(scratch):
    """Installs Tandem and builds the example against it; the program."""
    prefix, build = scratch / "prefix", scratch / "build"
    run("cmake", "--install", bin_directory().parent, "--prefix", prefix, "--component", "library")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-S", EXAMPLE, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-O0 -Wall -Wextra -Werror", *launcher)
    # The scratch directory has another name every time; ccache should not mind.
    run("cmake", "--build", build, env={**os.environ, "CCACHE_BASEDIR": str(scratch)})
    return build / "ddp"


class LibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="tandem-library-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.program = build_example(cls.scratch)

    def environment(self, **variables):
        # Ranks on one machine share its cores.
        return {**os.environ, "OMP_NUM_THREADS": "1", **variables}

    def start(self, command, environment):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(lambda: [s.close() for s in (process.stdout, process.stderr)])
        return process

    def finish(self, processes):
        """What all of them printed; each must succeed."""
        text = ""
        for process in processes:
            output, errors = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 0, errors)
            text += output
        return text

    def check(self, text, ranks):
        """Demands that all ranks learned the same; the hash of their weights and the engine."""
        found = RANK.findall(text)
        self.assertEqual(sorted(int(rank) for rank, *_ in found), list(range(ranks)), text)
        self.assertEqual({int(size) for _, size, *_ in found}, {ranks})
        self.assertEqual(len({weights for *_, weights in found}), 1, text)
        losses = [float(loss) for _, loss in LOSS.findall(text)]
        self.assertGreater(len(losses), 1)
        self.assertLess(losses[-1], losses[0] / 10)
        return found[0][3], found[0][2]

    def train(self, ranks, *arguments):
        port = str(free_port())
        processes = [self.start([self.program, *arguments],
                                self.environment(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                                                 MASTER_PORT=port)) for rank in range(ranks)]
        return self.check(self.finish(processes), ranks)

    def test_trains_alone_without_a_launcher(self):
        launchers = ("RANK", "WORLD_SIZE", "OMPI_", "SLURM_")
        environment = {k: v for k, v in self.environment().items() if not k.startswith(launchers)}
        weights, engine = self.check(self.finish([self.start([self.program], environment)]), 1)
        self.assertEqual(engine, "none")
        self.assertEqual(self.train(1), (weights, "none"))

    def test_two_ranks_learn_the_same_bits_with_every_engine(self):
        weights, engine = self.train(2)
        self.assertEqual(engine, "shm")
        self.assertEqual(self.train(2), (weights, "shm"))
        self.assertEqual(self.train(2, "gloo"), (weights, "gloo"))
        if shutil.which("mpirun"):  # MPI is optional.
            environment = self.environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            mpirun = self.start(["mpirun", "--oversubscribe", "-n", "2", self.program], environment)
            self.assertEqual(self.check(self.finish([mpirun]), 2), (weights, "mpi"))

    def fails(self, rank, *arguments):
        """What the example says when it fails."""
        process = self.start([self.program, *arguments],
                             self.environment(RANK=rank, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                              MASTER_PORT=str(free_port())))
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1)
        return errors

    def test_says_what_went_wrong(self):
        self.assertIn("RANK", self.fails("2"))
        self.assertIn("there is no engine `pigeon`", self.fails("0", "pigeon"))


if __name__ == "__main__":
    main()
