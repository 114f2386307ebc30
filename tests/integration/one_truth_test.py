"""One job has one result, bit for bit, whatever moves its gradients and however many workers share its lanes."""
import json
import os
import random
import struct
import subprocess

from harness import PATIENCE_S, TandemTest, main

# Of 1,294 training samples 2 are left for an epoch's last batch, so that lanes are empty there. No line is written to
# metrics.jsonl because time has passed.
MLP = """\
name = "mlp"
[model]
kind = "mlp"
hidden = [24]
dropout = 0.1
[data]
source = "digits"
[train]
steps = 30
batch = 19
seed = 7
report_every_s = 86400
optimizer = { kind = "sgd", lr = 0.05, momentum = 0.9 }
"""

CNN = """\
name = "cnn"
[model]
kind = "cnn"
[data]
source = "digits"
[train]
steps = 3
batch = 10
optimizer = { kind = "adam", lr = 0.001 }
"""

# 6 training samples: the second step has 2, for 4 lanes with batch-norm.
RESNET = """\
name = "resnet"
[model]
kind = "resnet18"
[data]
source = "npy"
images = "images.npy"
labels = "labels.npy"
task = "classes"
validation = 0
[train]
steps = 2
batch = 4
optimizer = { kind = "sgd", lr = 0.01 }
"""

GPT = """\
name = "gpt"
[model]
kind = "gpt"
width = 16
heads = 2
blocks = 1
dropout = 0.1
[data]
source = "text"
path = "text.txt"
context = 12
[train]
steps = 3
batch = 10
optimizer = { kind = "adamw", lr = 0.001, weight_decay = 0.01 }
"""

# More rows than a step's batch names; the last batch of an epoch has 2 samples for 4 lanes.
FACTORS = """\
name = "factors"
[model]
kind = "matrix_factorization"
dim = 5
[data]
source = "ratings"
users = 300
items = 200
samples = 1000
validation = 0
test = 0.2
[train]
epochs = 2
batch = 42
loss = "mse"
optimizer = { kind = "adagrad", lr = 0.1, weight_decay = 1e-4 }
"""

WIDE_DEEP = """\
name = "wide-deep"
[model]
kind = "wide_deep"
dim = 4
hidden = [12]
dropout = 0.1
[data]
source = "csv"
path = "table.csv"
categorical = ["shop", "customer"]
[train]
steps = 20
batch = 19
optimizer = { kind = "adam", lr = 0.01 }
"""

# What a line of metrics.jsonl says of the clock and not of the training.
TIMES = ("t_s", "train_s", "samples_per_s")


def write_npy(path, shape, numbers):
    """A float32 array as NumPy saves it."""
    header = repr({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
                     struct.pack(f"<{len(numbers)}f", *numbers))


def write_table(path):
    """300 rows with two columns of row numbers, a number, and a label of three classes."""
    numbers = random.Random(3)
    lines = ["shop,age,customer,bought"]
    for _ in range(300):
        shop, customer, age = numbers.randrange(20), numbers.randrange(90), numbers.uniform(18, 80)
        lines.append(f"{shop},{age:.1f},{customer},{'abc'[(shop + customer) % 3]}")
    path.write_text("\n".join(lines) + "\n")


class OneTruth(TandemTest):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def train(self, text, *overrides, engine="none", workers=1, lanes=4):
        """Trains to the end and returns the report, with the run's directory as `run`. Engine none: one process."""
        self.job.write_text(text)
        self.runs += 1
        out = f"run-{self.runs}"
        arguments = ["train", self.job, "-q", "--json", "--out", out, f"cluster.lanes={lanes}", *overrides]
        if engine == "mpi":
            output = self.mpirun(workers, *arguments)
        elif engine == "none":
            output = self.tandem(*arguments).stdout
        else:
            output = self.tandem(*arguments, f"cluster.workers={workers}", f"cluster.engine={engine}").stdout
        report = json.loads(output)
        self.assertEqual((report["status"], report["exact"]), ("finished", True), report)
        self.assertEqual(report["cluster"]["engine"], engine)
        self.assertEqual(report["cluster"]["lanes"], lanes)
        self.assertEqual(report["cluster"]["workers"], {"start": workers, "end": workers})
        return {**report, "run": self.scratch / out}

    def mpirun(self, ranks, *arguments):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "-n", str(ranks), self.program, *arguments]
        with subprocess.Popen(list(map(str, command)), cwd=self.scratch, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            try:
                output, errors = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.terminate()  # It ends its ranks, which a SIGKILL would leave behind.
                try:
                    output, errors = process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
                self.fail(f"mpirun took longer than {PATIENCE_S} s\n{output}\n{errors}")
        self.assertEqual(process.returncode, 0, f"{command}\n{output}\n{errors}")
        return output

    def assert_one_hash(self, text, ways, *overrides, lanes=4):
        """The weights of one process and of each way, an (engine, workers), are the same. Returns their hash."""
        truth = self.train(text, *overrides, lanes=lanes)["weights_hash"]
        self.assertRegex(truth, r"^[0-9a-f]{32}$")
        found = {way: self.train(text, *overrides, engine=way[0], workers=way[1], lanes=lanes)["weights_hash"]
                 for way in ways}
        self.assertEqual(found, dict.fromkeys(ways, truth))
        return truth


# One worker has no engine, so one process stands for all of them.
EVERY_WAY = [(engine, workers) for engine in ("shm", "gloo", "mpi") for workers in (2, 3, 4)]


class Models(OneTruth):
    """Every model with every engine and number of workers; 3 of them share 4 lanes unevenly."""

    def test_an_mlp_with_dropout(self):
        self.assert_one_hash(MLP, EVERY_WAY)

    def test_a_cnn(self):
        self.assert_one_hash(CNN, EVERY_WAY)

    def test_a_resnet_with_batch_norm(self):
        # 45 MB of gradients in a step: many buckets.
        numbers = random.Random(1)
        write_npy(self.scratch / "images.npy", (8, 3, 32, 32), [numbers.gauss(0, 1) for _ in range(8 * 3 * 32 * 32)])
        write_npy(self.scratch / "labels.npy", (8,), [float(i % 2) for i in range(8)])
        self.assert_one_hash(RESNET, EVERY_WAY)

    def test_a_gpt(self):
        letters = random.Random(2)
        (self.scratch / "text.txt").write_text("".join(letters.choices("abcdefgh ,.\n", k=4000)))
        self.assert_one_hash(GPT, EVERY_WAY)

    def test_a_matrix_factorisation(self):
        self.assert_one_hash(FACTORS, EVERY_WAY)

    def test_wide_and_deep(self):
        write_table(self.scratch / "table.csv")
        self.assert_one_hash(WIDE_DEEP, [("shm", 2), ("shm", 3), ("gloo", 4)])


class Lanes(OneTruth):
    """Numbers of lanes that are no power of two, and another result for each."""

    def test_3_5_and_6_lanes(self):
        hashes = set()
        for lanes in (3, 5, 6):
            ways = [("shm", workers) for workers in range(2, min(4, lanes) + 1)]
            # Gloo adds in the order that the lanes give, so one number of them is enough.
            if lanes == 5:
                ways.append(("gloo", 3))
            hashes.add(self.assert_one_hash(MLP, ways, "train.steps=12", lanes=lanes))
        self.assertEqual(len(hashes), 3)


class Recipe(OneTruth):
    """What else goes into a result."""

    def test_gradients_that_are_clipped(self):
        ways = [("shm", 3), ("gloo", 2)]
        plain = self.train(MLP, "train.steps=12")["weights_hash"]
        by_norm = self.assert_one_hash(MLP, ways, "train.steps=12", "train.clip.norm=0.3")
        by_value = self.assert_one_hash(MLP, ways, "train.steps=12", "train.clip.value=0.005")
        self.assertEqual(len({plain, by_norm, by_value}), 3, "clipping changed nothing")

    def test_small_buckets(self):
        plain = self.train(MLP, "train.steps=12")["weights_hash"]
        for engine in ("shm", "gloo"):
            cut = self.train(MLP, "train.steps=12", "cluster.bucket_bytes=512", engine=engine, workers=3)
            self.assertEqual(cut["weights_hash"], plain, engine)

    def test_an_uneven_last_batch_losses_and_evaluations(self):
        def told(report):
            lines = map(json.loads, (report["run"] / "metrics.jsonl").read_text().splitlines())
            return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]

        changes = ["train.steps=0", "train.epochs=2", "train.clip.norm=1.0"]
        one = self.train(MLP, *changes)
        self.assertNotEqual(one["samples"] // one["epochs"] % 19, 0, "the last batch is as large as the others")
        # The first step, the end of each epoch; a validation of each and the test.
        self.assertEqual([line["kind"] for line in told(one)].count("train"), 3)
        self.assertEqual([line["kind"] for line in told(one)].count("eval"), 3)
        self.assertTrue(all(line["grad_norm"] > 0 for line in told(one) if line["kind"] == "train"))
        for engine in ("shm", "gloo", "mpi"):
            with self.subTest(engine=engine):
                three = self.train(MLP, *changes, engine=engine, workers=3)
                for key in ("weights_hash", "eval", "steps", "epochs", "samples"):
                    self.assertEqual(three[key], one[key], key)
                self.assertEqual(told(three), told(one))


class Servers(OneTruth):
    """Parameter servers sum and update instead of the workers: the same bits."""

    def assert_same(self, text, ways, *overrides):
        """One process and each way, (workers, servers, transport[, replicas]), end in the same weights."""
        truth = self.train(text, *overrides)
        for workers, servers, transport, *replicas in ways:
            copies = replicas[0] if replicas else 1
            with self.subTest(workers=workers, servers=servers, transport=transport, replicas=copies):
                engine = "none" if workers == 1 else "shm"
                found = self.train(text, *overrides, "cluster.strategy=ps", f"cluster.servers={servers}",
                                   f"cluster.replicas={copies}", f"ps.transport={transport}",
                                   f"cluster.workers={workers}", engine=engine, workers=workers)
                self.assertEqual(found["cluster"]["strategy"], "ps")
                self.assertEqual(found["cluster"]["servers"], {"start": servers, "end": servers})
                self.assertEqual(found["cluster"]["replicas"], copies)
                for key in ("weights_hash", "eval", "steps", "samples"):
                    self.assertEqual(found[key], truth[key], key)

    def test_workers_servers_and_transports(self):
        self.assert_same(MLP, [(1, 1, "auto"), (1, 3, "tcp"), (2, 1, "tcp"), (2, 2, "auto"), (3, 2, "tcp"), (3, 3, "auto"),
                               (4, 1, "auto"), (4, 3, "tcp")], "model.hidden=[200]")

    def test_tables_of_embeddings(self):
        self.assert_same(FACTORS, [(1, 1, "auto"), (2, 2, "auto"), (3, 2, "tcp"), (4, 3, "auto")])
        write_table(self.scratch / "table.csv")
        self.assert_same(WIDE_DEEP, [(2, 2, "auto"), (3, 3, "tcp")])

    def test_copies_of_slices(self):
        self.assert_same(MLP, [(1, 2, "auto", 2), (2, 2, "tcp", 2), (2, 3, "auto", 2), (3, 3, "tcp", 2), (4, 2, "auto", 2),
                               (4, 3, "tcp", 2), (2, 3, "auto", 3)], "model.hidden=[200]")

    def test_optimizers_with_more_state(self):
        self.assert_same(CNN, [(2, 2, "auto"), (3, 1, "tcp"), (2, 2, "tcp", 2)])

    def test_gradients_that_are_clipped(self):
        ways = [(2, 2, "auto"), (3, 3, "tcp"), (2, 3, "auto", 2), (3, 2, "tcp", 2)]
        self.assert_same(MLP, ways, "train.steps=12", "train.clip.norm=0.3")
        self.assert_same(MLP, ways, "train.steps=12", "train.clip.value=0.005")

    def test_frozen_layers_and_batch_statistics(self):
        numbers = random.Random(1)
        write_npy(self.scratch / "images.npy", (8, 3, 32, 32), [numbers.gauss(0, 1) for _ in range(8 * 3 * 32 * 32)])
        write_npy(self.scratch / "labels.npy", (8,), [float(i % 2) for i in range(8)])
        self.assert_same(RESNET, [(2, 2, "auto"), (2, 2, "auto", 2)], 'model.freeze=["conv1*"]')


if __name__ == "__main__":
    main()
