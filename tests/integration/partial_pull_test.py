"""With `ps.pull = "partial"` a job has the bits that it has with "full", and moves what it trains alone."""
import json

from harness import TandemTest, main
from jobs import WIDE_DEEP, write_clicks

# 4,000 rows of 17 floats; a step of 32 ratings touches at most 64 of them.
RATINGS = """\
name = "ratings"
[model]
kind = "matrix_factorization"
dim = 16
[data]
source = "ratings"
users = 2500
items = 1500
samples = 9000
[train]
epochs = 1
batch = 32
loss = "mse"
seed = 3
optimizer = { kind = "adagrad", lr = 0.1 }
"""

MLP = """\
name = "mlp"
[model]
kind = "mlp"
hidden = [128, 32]
freeze = ["fc1*"]
[data]
source = "digits"
[train]
steps = 40
batch = 19
seed = 7
optimizer = { kind = "adam", lr = 0.002 }
"""


class PartialPull(TandemTest):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def train(self, text, *overrides, exact=True):
        self.job.write_text(text)
        self.runs += 1
        report = json.loads(self.tandem("train", self.job, "-q", "--json", "--out", f"run-{self.runs}",
                                        "cluster.lanes=4", *overrides).stdout)
        self.assertEqual((report["status"], report["exact"]), ("finished", exact), report)
        return report

    def with_servers(self, text, pull, workers, servers, transport, *overrides, exact=True):
        return self.train(text, "cluster.strategy=ps", f"ps.pull={pull}", f"cluster.workers={workers}",
                          f"cluster.servers={servers}", f"ps.transport={transport}", *overrides, exact=exact)

    def moved(self, report, way):
        return report["bytes"][way]["gradients"] + report["bytes"][way]["parameters"]

    def assert_same(self, found, truth):
        for key in ("weights_hash", "eval", "steps", "samples"):
            self.assertEqual(found[key], truth[key], key)

    def test_rows_of_factors_give_the_same_bits(self):
        truth = self.train(RATINGS)
        for workers, servers, transport in [(1, 1, "auto"), (1, 2, "tcp"), (2, 1, "tcp"), (2, 2, "auto"), (3, 2, "tcp"),
                                            (3, 1, "auto")]:
            with self.subTest(workers=workers, servers=servers, transport=transport):
                self.assert_same(self.with_servers(RATINGS, "partial", workers, servers, transport), truth)

    def test_rows_move_a_twentieth_of_the_bytes(self):
        for workers, servers, transport in [(1, 1, "auto"), (2, 2, "tcp")]:
            with self.subTest(workers=workers, servers=servers, transport=transport):
                full, partial = (self.with_servers(RATINGS, pull, workers, servers, transport)
                                 for pull in ("full", "partial"))
                self.assert_same(partial, full)
                for way in ("sent", "received"):
                    self.assertGreater(self.moved(full, way), 20 * self.moved(partial, way), way)

    def test_a_worker_that_does_not_wait_has_the_bits_of_full(self):
        """One alone: with several the order of their pushes would decide."""
        for optimizer in ([], ["train.optimizer.kind=adam", "train.optimizer.lr=0.01", "ps.consistency=ssp"]):
            with self.subTest(optimizer=optimizer):
                full, partial = (self.with_servers(RATINGS, pull, 1, 2, transport, "ps.consistency=asp", *optimizer, exact=False)
                                 for pull, transport in (("full", "auto"), ("partial", "tcp")))
                self.assert_same(partial, full)
                self.assertGreater(self.moved(full, "sent"), 20 * self.moved(partial, "sent"))

    def test_wide_and_deep(self):
        write_clicks(self.scratch / "clicks.csv")
        truth = self.train(WIDE_DEEP)
        for pull, workers, servers, transport in [("full", 2, 2, "auto"), ("partial", 1, 2, "auto"), ("partial", 3, 2, "tcp")]:
            with self.subTest(pull=pull, workers=workers, servers=servers):
                self.assert_same(self.with_servers(WIDE_DEEP, pull, workers, servers, transport), truth)
        for freeze in ('["embedding2*", "fc2*"]', '["wide*"]'):
            with self.subTest(freeze=freeze):
                override = f"model.freeze={freeze}"
                self.assert_same(self.with_servers(WIDE_DEEP, "partial", 2, 2, "auto", override),
                                 self.train(WIDE_DEEP, override))

    def test_frozen_layers_do_not_travel(self):
        truth = self.train(MLP)
        for workers, servers, transport in [(1, 1, "tcp"), (2, 3, "auto")]:
            with self.subTest(workers=workers, servers=servers, transport=transport):
                full, partial = (self.with_servers(MLP, pull, workers, servers, transport)
                                 for pull in ("full", "partial"))
                self.assert_same(full, truth)
                self.assert_same(partial, truth)
                self.assertGreater(self.moved(full, "received"), 1.3 * self.moved(partial, "received"))

    def test_checkpoints_hold_whole_tables(self):
        truth = self.train(RATINGS, "train.steps=180")
        for overrides in (["cluster.strategy=allreduce"], ["cluster.servers=1", "ps.transport=tcp"]):
            with self.subTest(overrides=overrides):
                self.with_servers(RATINGS, "partial", 2, 2, "auto", "train.steps=100")
                out = f"run-{self.runs}"
                self.tandem("resume", out, "-q", "train.steps=180", *overrides)
                self.assert_same(self.report(out), truth)

    def test_optimizers_that_change_rows_nobody_touches(self):
        for overrides in (["train.optimizer.kind=adam", "train.optimizer.lr=0.01", "train.optimizer.weight_decay=0.001"],
                          ["train.optimizer.kind=sgd", "train.optimizer.momentum=0.9", "train.clip.norm=0.05"]):
            with self.subTest(overrides=overrides):
                overrides = [*overrides, "train.epochs=1"]
                truth = self.train(RATINGS, *overrides)
                self.assert_same(self.with_servers(RATINGS, "partial", 2, 2, "auto", *overrides), truth)


if __name__ == "__main__":
    main()
