"""With `ps.tables = "sparse"` servers alone keep embeddings: one result however many there are, and that of dense tables where it can be."""
import json
import struct

from harness import TandemTest, main
from jobs import WIDE_DEEP, write_clicks

RATINGS = """\
name = "ratings"
[model]
kind = "matrix_factorization"
dim = 16
[data]
source = "ratings"
users = 2500
items = 1500
samples = 4000
[train]
epochs = 1
batch = 32
loss = "mse"
seed = 3
optimizer = { kind = "adagrad", lr = 0.1 }
"""

TABLES = ["user.weight", "item.weight", "user.bias", "item.bias"]
# Adam's rows change only when they are touched; some never are, or not for long.
LAZY = ["train.optimizer.kind=adam", "train.optimizer.lr=0.01", "train.optimizer.weight_decay=0.001", "train.epochs=2",
        "ps.admit_after=1", "ps.evict_after=60"]


def tensors(path):
    """The header of a safetensors file, and its data."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + length]), content[8 + length:]


class SparseTables(TandemTest):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def train(self, text, tables, workers, servers, transport, *overrides, exact=True):
        self.job.write_text(text)
        self.runs += 1
        report = json.loads(self.tandem(
            "train", self.job, "-q", "--json", "--out", f"run-{self.runs}", "cluster.lanes=4", "cluster.strategy=ps",
            f"ps.tables={tables}", f"cluster.workers={workers}", f"cluster.servers={servers}", f"ps.transport={transport}",
            *overrides).stdout)
        self.assertEqual((report["status"], report["exact"]), ("finished", exact), report)
        return report

    def losses(self, run):
        lines = map(json.loads, (self.scratch / run / "metrics.jsonl").read_text().splitlines())
        return {(line["kind"], line["step"]): line["loss"] for line in lines if "loss" in line}

    def assert_same(self, found, truth, *keys):
        for key in keys or ("weights_hash", "eval", "steps", "samples"):
            self.assertEqual(found[key], truth[key], key)

    def test_one_hash_and_the_result_of_dense_tables(self):
        dense = self.train(RATINGS, "dense", 1, 1, "auto", "train.report_every_s=86400")
        truth = None
        for workers, servers, transport in [(1, 1, "auto"), (1, 3, "tcp"), (2, 2, "auto"), (4, 3, "tcp")]:
            with self.subTest(workers=workers, servers=servers, transport=transport):
                found = self.train(RATINGS, "sparse", workers, servers, transport, "train.report_every_s=86400")
                truth = truth or found
                self.assert_same(found, truth)
                self.assert_same(found, dense, "eval", "steps", "samples")
                self.assertEqual(self.losses(f"run-{self.runs}"), self.losses("run-1"))

    def test_wide_and_deep(self):
        write_clicks(self.scratch / "clicks.csv")
        dense = self.train(WIDE_DEEP, "dense", 1, 1, "auto")
        one, many = (self.train(WIDE_DEEP, "sparse", *way) for way in ((1, 1, "auto"), (3, 2, "tcp")))
        self.assert_same(one, many)
        self.assert_same(many, dense, "eval", "steps")

    def test_admission_and_eviction(self):
        one, many = (self.train(RATINGS, "sparse", *way, *LAZY) for way in ((1, 1, "auto"), (3, 2, "tcp")))
        self.assert_same(one, many)
        plain = self.train(RATINGS, "sparse", 1, 1, "auto", *LAZY, "ps.admit_after=0", "ps.evict_after=0")
        self.assertNotEqual(plain["weights_hash"], one["weights_hash"])
        for few, all_rows in zip(one["tables"], plain["tables"]):
            self.assertLess(few["rows"], all_rows["rows"])
            self.assertGreater(few["candidates"], 0)
            self.assertGreater(few["evicted"], 0)
            self.assertEqual((all_rows["candidates"], all_rows["evicted"]), (0, 0))
        self.assertEqual([table["name"] for table in plain["tables"]], TABLES)

    def test_a_worker_that_does_not_wait_makes_the_steps_of_one_that_does(self):
        """One alone, whose tasks are whole steps; with several the order of their pushes would decide."""
        one, free = (self.train(RATINGS, "sparse", 1, servers, transport, *LAZY, "cluster.lanes=1", f"ps.consistency={way}",
                                exact=way == "bsp")
                     for way, servers, transport in (("bsp", 1, "auto"), ("asp", 3, "tcp")))
        self.assert_same(free, one)

    def test_a_model_file_has_the_rows_that_were_trained(self):
        report = self.train(RATINGS, "sparse", 2, 2, "auto")
        header, data = tensors(self.scratch / "run-1" / "model.safetensors")
        for table in report["tables"]:
            keys, rows = header[table["name"] + ".keys"], header[table["name"] + ".rows"]
            self.assertEqual((keys["dtype"], keys["shape"]), ("I64", [table["rows"]]))
            self.assertEqual(rows["shape"][0], table["rows"])
            begin, end = keys["data_offsets"]
            numbers = [number for (number,) in struct.iter_unpack("<q", data[begin:end])]
            self.assertEqual(numbers, sorted(set(numbers)))
        evaluated = json.loads(self.tandem("eval", "run-1", "--json").stdout)
        self.assertEqual(evaluated["loss"], report["eval"]["loss"])
        self.tandem("model", "verify", "run-1")
        self.assertIn("user.weight.rows", self.tandem("model", "summary", "run-1").stdout)
        self.tandem("model", "export", "run-1", "--out", "copy.safetensors")
        verified = json.loads(self.tandem("model", "verify", "copy.safetensors", "--json").stdout)
        self.assertEqual(verified["weights_hash"], report["weights_hash"])
        # Rows that nobody trained, and others, predict as those of dense tables.
        (self.scratch / "some.csv").write_text("user,item\n" + "".join(f"{i},{i * 7 % 1500}\n" for i in range(0, 2500, 50)))
        self.train(RATINGS, "dense", 1, 1, "auto")
        sparse, dense = (self.tandem("predict", run, "some.csv").stdout for run in ("run-1", "run-2"))
        self.assertEqual(sparse, dense)

    def test_resumed_with_other_workers_and_servers(self):
        truth = self.train(RATINGS, "sparse", 1, 1, "auto", *LAZY)
        self.train(RATINGS, "sparse", 2, 3, "auto", *LAZY, "train.epochs=1")
        self.tandem("checkpoint", "verify", "run-2")
        first = int(next((self.scratch / "run-2" / "checkpoints").iterdir()).name[5:])
        self.tandem("resume", "run-2", "-q", "train.epochs=2", "cluster.workers=3", "cluster.servers=2")
        self.assert_same(self.report("run-2"), truth)
        # They do not have the same rows.
        apart = json.loads(self.tandem("checkpoint", "diff", "run-2", first, truth["steps"], "--json").stdout)
        self.assertGreater(min(each["distance"] for each in apart), 0)

    def test_a_damaged_checkpoint_is_refused(self):
        self.train(RATINGS, "sparse", 1, 2, "auto", "train.steps=30")
        (checkpoint,) = (self.scratch / "run-1" / "checkpoints").iterdir()
        for name in ("model.safetensors", "training.safetensors"):
            with self.subTest(file=name):
                file = checkpoint / name
                content = file.read_bytes()
                file.write_bytes(content[:-100])
                result = self.tandem("resume", "run-1", "-q", "train.steps=60", code=3)
                self.assertIn(f"{name}: it is truncated", result.stderr)
                self.tandem("checkpoint", "verify", "run-1", code=4)
                file.write_bytes(content)
        # What was made with dense tables cannot go on with sparse ones.
        self.train(RATINGS, "dense", 1, 1, "auto", "train.steps=30")
        result = self.tandem("resume", "run-2", "-q", "train.steps=60", "ps.tables=sparse", code=2)
        self.assertIn("go on with the job that it was made by", result.stderr)


if __name__ == "__main__":
    main()
