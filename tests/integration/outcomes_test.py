"""What a user gets in the end: how well models learn, that they learn the same bits, and what a failure leaves."""
import collections
import gzip
import json
import math
import pathlib
import random
import statistics
import struct
import subprocess
import zipfile

from harness import TandemTest, main
from train_test import write_npy

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits.toml"

MLP = """\
[model]
kind = "mlp"
hidden = [32]
dropout = 0.2
[data]
source = "digits"
[train]
steps = 40
"""

GPT = """\
[model]
kind = "gpt"
width = 32
blocks = 2
heads = 2
[data]
source = "text"
path = "story.txt"
context = 32
[train]
steps = 150
batch = 16
optimizer = { kind = "adamw", lr = 3e-3 }
"""

IDX = """\
[model]
kind = "mlp"
hidden = [16]
[data]
source = "idx"
images = "images"
labels = "labels"
[train]
epochs = 3
batch = 16
"""

REGRESSION = """\
[model]
kind = "mlp"
hidden = [16]
[data]
source = "csv"
path = "line.csv"
task = "values"
[train]
epochs = 20
batch = 16
loss = "mse"
"""

FRUIT = """\
[model]
kind = "softmax"
[data]
source = "csv"
path = "fruit.csv"
label = "fruit"
[train]
epochs = 10
batch = 16
"""

IMAGE_SIDE = 12
IMAGE_CLASSES = 4


def story(characters):
    """A text of sentences that differ only in a few of their words."""
    pick = random.Random(1).choice
    names = ["Anna", "Ben", "Clara", "David"]
    verbs = ["walks", "runs", "drives", "rows"]
    places = ["the harbour", "the old mill", "a quiet village", "the market"]
    text = ""
    while len(text) < characters:
        text += f"{pick(names)} {pick(verbs)} from {pick(places)} to {pick(places)}. "
    return text


def unigram_entropy(text):
    """The loss of a model that knows how often each character occurs and nothing else."""
    return -sum(n / len(text) * math.log(n / len(text)) for n in collections.Counter(text).values())


def stripes(count):
    """Noisy grey images in which a bright stripe tells the class: the bytes of each."""
    noise = random.Random(2)
    width = IMAGE_SIDE // IMAGE_CLASSES
    return [bytes((200 if x // width == i % IMAGE_CLASSES else 20) + noise.randrange(50)
                  for _ in range(IMAGE_SIDE) for x in range(IMAGE_SIDE)) for i in range(count)]


def idx_images(images):
    return struct.pack(">IIII", 0x803, len(images), IMAGE_SIDE, IMAGE_SIDE) + b"".join(images)


def idx_labels(count):
    return struct.pack(">II", 0x801, count) + bytes(i % IMAGE_CLASSES for i in range(count))


def tensors_of_npz(path):
    """The npy file of each tensor, header and all."""
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}


class OutcomeTest(TandemTest):
    def write(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        return path

    def train(self, job, out, *arguments, **options):
        return self.tandem("train", job, "--out", out, *arguments, **options)

    def expect_failed_run(self, run, code):
        """The run says how it failed, and left no model."""
        report = self.report(run)
        self.assertEqual((report["status"], report["error"]["code"]), ("failed", code))
        self.assertIsNone(report["model"])
        self.assertFalse((self.scratch / run / "model.safetensors").exists())


class DefaultJob(OutcomeTest):
    def test_reaches_its_accuracy_and_evaluates_to_it(self):
        progress = self.train(DIGITS, "run").stderr
        self.assertIn("step 1/", progress)
        first = json.loads((self.scratch / "run/metrics.jsonl").read_text().splitlines()[0])
        self.assertEqual((first["kind"], first["step"]), ("train", 1))

        report = self.report("run")
        self.assertEqual(report["status"], "finished")
        self.assertGreaterEqual(report["eval"]["accuracy"], 0.97)
        self.assertRegex(report["weights_hash"], r"^[0-9a-f]{32}$")
        again = json.loads(self.tandem("eval", "run", "--json").stdout)
        self.assertEqual({name: again[name] for name in ("loss", "accuracy")}, report["eval"])


class LongEpoch(OutcomeTest):
    def test_is_not_taken_for_a_hung_worker(self):
        timeout_s = 2
        job = self.write("idx.toml", IDX)
        for repeats in (200, 800, 3200):
            images = stripes(100) * repeats
            (self.scratch / "images").write_bytes(idx_images(images))
            (self.scratch / "labels").write_bytes(idx_labels(len(images)))
            run = f"run-{repeats}"
            self.train(job, run, "model={ kind = \"cnn\" }", "data.validation=0", "data.test=0.01", "train.epochs=1",
                       "train.batch=64", "train.report_every_s=60", "--timeout", timeout_s)
            self.assertEqual(self.report(run)["status"], "finished")
            if self.report(run)["train_s"] > 1.5 * timeout_s:
                return
        self.fail("no epoch was longer than the timeout, so none shows anything")


class Determinism(OutcomeTest):
    def hash_of(self, *overrides):
        job = self.write("mlp.toml", MLP)
        return json.loads(self.tandem("train", job, "--json", "-q", *overrides).stdout)["weights_hash"]

    def test_the_seed_decides_the_bits(self):
        first = self.hash_of()
        self.assertEqual(self.hash_of(), first)
        self.assertNotEqual(self.hash_of("train.seed=2"), first)

    def test_prefetching_does_not_change_them(self):
        self.assertEqual(self.hash_of("cluster.lanes=4", "data.prefetch=0"),
                         self.hash_of("cluster.lanes=4", "data.prefetch=4"))


class TextModel(OutcomeTest):
    def test_learns_a_text_and_continues_a_prompt(self):
        text = story(20_000)
        self.write("story.txt", text)
        self.train(self.write("gpt.toml", GPT), "run")
        self.assertLess(self.report("run")["eval"]["loss"], 0.6 * unigram_entropy(text))

        prompt = "Anna walks"
        answer = self.tandem("predict", "run", "--prompt", prompt, "--length", 50, "--temperature", 0).stdout
        self.assertTrue(answer.startswith(prompt), answer)
        self.assertEqual(len(answer.removesuffix("\n")), len(prompt) + 50)

        self.assertIn("`Z`", self.tandem("predict", "run", "--prompt", "Zoe", code=2).stderr)
        self.assertIn("prompt", self.tandem("predict", "run", "--prompt", "", code=2).stderr)


class DamagedData(OutcomeTest):
    def setUp(self):
        super().setUp()
        content = idx_images(stripes(100))
        packed = gzip.compress(content, mtime=0)
        (self.scratch / "images").write_bytes(content)
        (self.scratch / "labels").write_bytes(idx_labels(100))
        (self.scratch / "cut").write_bytes(content[:-100])
        (self.scratch / "half.gz").write_bytes(packed[:len(packed) // 2])
        (self.scratch / "wrong.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{broken header!}" + bytes(400))
        self.write("row.csv", "a,b,label\n1,2,0\n3,4,1\n5,6\n7,8,0\n")
        self.idx = self.write("idx.toml", IDX)

    def expect_refused(self, file, kind, code, *overrides):
        errors = self.train(self.idx, file + ".run", *overrides, code=code).stderr
        self.assertRegex(errors, r"(?m)^error: .*" + file)
        self.expect_failed_run(file + ".run", kind)
        return errors

    def test_truncated_idx(self):
        self.assertIn("truncated", self.expect_refused("cut", "corrupt", 4, "data.images=cut"))

    def test_truncated_gzip(self):
        self.assertIn("truncated", self.expect_refused("half.gz", "corrupt", 4, "data.images=half.gz"))

    def test_csv_row_that_does_not_fit(self):
        job = self.write("fruit.toml", FRUIT)
        errors = self.train(job, "run", "data.path=row.csv", "data.label=label", code=2).stderr
        self.assertRegex(errors, r"row\.csv: line 4\b")
        self.expect_failed_run("run", "invalid_argument")

    def test_npy_with_a_wrong_header(self):
        files = ("data.source=npy", "data.images=wrong.npy", "data.labels=wrong.npy")
        self.assertIn("header", self.expect_refused("wrong.npy", "corrupt", 4, *files))

    def test_missing_file(self):
        self.expect_refused("absent", "not_found", 3, "data.images=absent")


class DamagedModel(OutcomeTest):
    def setUp(self):
        super().setUp()
        self.train(self.write("mlp.toml", MLP), "run")
        write_npy(self.scratch / "one.npy", (1, 8, 8), [0.0] * 64)
        self.model = self.scratch / "run/model.safetensors"
        self.content = self.model.read_bytes()

    def expect_refused(self, content, message):
        self.model.write_bytes(content)
        for command in (["model", "verify", "run"], ["eval", "run"], ["predict", "run", "one.npy"]):
            self.assertRegex(self.tandem(*command, code=4).stderr, message)

    def test_a_flipped_byte_names_the_tensor(self):
        self.expect_refused(self.content[:-5] + bytes([self.content[-5] ^ 1]) + self.content[-4:], "fc2.bias")

    def test_a_huge_header_is_not_believed(self):
        self.expect_refused(struct.pack("<Q", 1 << 60) + self.content[8:], "header")


class FineTuning(OutcomeTest):
    def exported(self, run):
        path = self.scratch / f"{run}.npz"
        self.tandem("model", "export", run, "--format", "npz", "--out", path)
        return tensors_of_npz(path)

    def test_frozen_tensors_keep_their_bytes(self):
        job = self.write("mlp.toml", MLP)
        self.train(job, "first")
        progress = self.train(job, "second", "model.init_from=first", 'model.freeze=["fc1*"]').stderr
        self.assertIn("4 of 4 tensors", progress)
        before, after = self.exported("first"), self.exported("second")
        self.assertEqual(set(before), {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"})
        same = {name for name in before if before[name] == after[name]}
        self.assertEqual(same, {"fc1.weight", "fc1.bias"})

    def test_what_does_not_match_is_named(self):
        job = self.write("mlp.toml", MLP)
        self.train(job, "first")
        progress = self.train(job, "second", "model.init_from=first", "model.hidden=[32, 24]").stderr
        self.assertIn("2 of 6 tensors", progress)
        for name in ("fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"):
            self.assertRegex(progress, rf"note .*{name}")
        kept = [event["detail"] for event in self.report("second")["events"] if event["kind"] == "note"]
        self.assertIn("2 of 6 tensors", kept[0])
        self.assertEqual(len(kept), 5, kept)


class Divergence(OutcomeTest):
    def test_names_step_and_tensor_and_leaves_no_model(self):
        errors = self.train(self.write("mlp.toml", MLP), "run", "train.optimizer.lr=1e30", code=10).stderr
        self.assertRegex(errors, r"error: .*step \d+.*`[\w.]+`")
        self.expect_failed_run("run", "diverged")


class Regression(OutcomeTest):
    def setUp(self):
        super().setUp()
        numbers = random.Random(3)
        points = [(numbers.uniform(-1, 1), numbers.uniform(-1, 1)) for _ in range(400)]
        rows = [(a, b, 2 * a - b + numbers.gauss(0, 0.05)) for a, b in points]
        self.variance = statistics.pvariance([y for _, _, y in rows])
        self.write("line.csv", "x1,x2,y\n" + "".join(f"{a:.4f},{b:.4f},{y:.4f}\n" for a, b, y in rows))
        self.job = self.write("line.toml", REGRESSION)

    def test_explains_most_of_the_variance(self):
        self.train(self.job, "run")
        result = self.report("run")["eval"]
        self.assertLess(result["loss"], 0.2 * self.variance)
        self.assertIsNone(result["accuracy"])

    def test_has_no_accuracy_to_stop_at(self):
        stop = ("train.early_stop.patience=2", "train.early_stop.metric=accuracy")
        # What the data is, the job says, or the data itself.
        for run, task in (("told", "values"), ("seen", "auto")):
            self.assertIn("accuracy", self.train(self.job, run, f"data.task={task}", *stop, code=2).stderr)
            best = self.train(self.job, run + "-best", f"data.task={task}", "checkpoint.best=accuracy", code=2)
            self.assertIn("accuracy", best.stderr)


class Table(OutcomeTest):
    def test_with_names_and_categories_trains_and_predicts(self):
        kinds = [("red", 150, "apple"), ("yellow", 120, "banana"), ("orange", 200, "orange")]
        numbers = random.Random(4)
        rows = [(colour, weight + numbers.gauss(0, 10), fruit) for colour, weight, fruit in kinds * 100]
        self.write("fruit.csv", "colour,weight,fruit\n" + "".join(f"{c},{w:.1f},{f}\n" for c, w, f in rows))
        self.train(self.write("fruit.toml", FRUIT), "run")
        self.assertGreater(self.report("run")["eval"]["accuracy"], 0.95)

        self.write("new.csv", "colour,weight\nred,151\nyellow,119\norange,203\n")
        answer = self.tandem("predict", "run", "new.csv", "--top", 3, "--json").stdout
        lines = [json.loads(line) for line in answer.splitlines()]
        self.assertEqual([line["class"] for line in lines], [fruit for _, _, fruit in kinds])
        for line in lines:
            probabilities = [entry["probability"] for entry in line["top"]]
            self.assertTrue(all(0 <= p <= 1 for p in probabilities), line)
            self.assertAlmostEqual(sum(probabilities), 1, places=4)


class Prediction(OutcomeTest):
    def setUp(self):
        super().setUp()
        images = stripes(200)
        (self.scratch / "images").write_bytes(idx_images(images))
        (self.scratch / "labels").write_bytes(idx_labels(200))
        self.train(self.write("idx.toml", IDX), "run")
        self.some = images[:IMAGE_CLASSES]

    def test_is_the_same_from_every_format(self):
        packed = gzip.compress(idx_images(self.some), mtime=0)
        (self.scratch / "some.idx.gz").write_bytes(packed)
        write_npy(self.scratch / "some.npy", (len(self.some), IMAGE_SIDE, IMAGE_SIDE), list(b"".join(self.some)))
        self.write("some.csv", "".join(",".join(map(str, image)) + "\n" for image in self.some))
        answers = []
        for name in ("some.idx.gz", "some.npy", "some.csv"):
            lines = [line.split("\t") for line in self.tandem("predict", "run", name, "--top", 3).stdout.splitlines()]
            self.assertEqual({line[0] for line in lines}, {name})
            answers.append([line[1:] for line in lines])
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])
        self.assertEqual([line[1] for line in answers[0]], [str(i) for i in range(IMAGE_CLASSES)])
        for line in answers[0]:
            self.assertEqual(len(set(line[1::2])), 3, line)

    def test_and_evaluation_notice_a_full_disk(self):
        for command in (["eval", "run"], ["predict", "run", "images"]):
            with open("/dev/full", "w") as full:
                errors = self.tandem(*command, code=9, capture_output=False, stdout=full, stderr=subprocess.PIPE).stderr
            self.assertRegex(errors, r"(?m)^error: .*[Nn]o space")


if __name__ == "__main__":
    main()
