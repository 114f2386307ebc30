"""Training on one machine with both programs, and what a trained model is good for afterwards."""
import json
import os
import shutil
import struct
import subprocess

from harness import PATIENCE_S, TandemTest, main


def write_npy(path, shape, numbers):
    """A float32 array as NumPy saves it."""
    header = repr({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
                     struct.pack(f"<{len(numbers)}f", *numbers))


class Train(TandemTest):
    def test_leaves_a_whole_run_directory(self):
        result = self.tandem("train", self.job)
        self.assertEqual(result.stdout, "runs/digits-1\n")
        self.assertNotIn("\x1b", result.stderr)
        for word in ("parameters", "batch", "kernels", "test", "weights", "runs/digits-1"):
            self.assertIn(word, result.stderr)
        run = self.scratch / "runs/digits-1"
        names = {path.name for path in run.iterdir()}
        self.assertLessEqual({"job.toml", "metrics.jsonl", "events.jsonl", "worker-0.log", "checkpoints", "report.json",
                              "model.safetensors"}, names)
        self.assertFalse([name for name in names if ".tmp" in name])

        report = self.report(run)
        self.assertEqual(report["status"], "finished")
        self.assertEqual(report["epochs"], 2)
        self.assertGreater(report["eval"]["accuracy"], 0.8)
        self.assertRegex(report["weights_hash"], r"^[0-9a-f]{32}$")
        self.assertEqual(report["cluster"]["workers"], {"start": 1, "end": 1})
        self.assertGreater(report["bytes"]["sent"]["control"], 0)
        self.assertLessEqual(report["train_s"], report["wall_s"])
        self.assertIsNone(report["error"])
        self.assertTrue((run / report["model"]).is_file())

        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual({line["kind"] for line in metrics}, {"train", "eval"})
        self.assertEqual(max(line["step"] for line in metrics), report["steps"])

    def test_the_same_job_gives_the_same_bits_and_another_seed_others(self):
        reports = [json.loads(self.tandem("train", self.job, "--json", "-q", *overrides).stdout)
                   for overrides in ([], [], ["train.seed=2"])]
        hashes = [report["weights_hash"] for report in reports]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])

    def test_the_resolved_job_gives_the_same_bits(self):
        self.tandem("train", self.job, "train.epochs=1", "--out", "first")
        self.tandem("train", "first/job.toml", "--out", "second")
        self.assertEqual(self.report("first")["weights_hash"], self.report("second")["weights_hash"])
        self.assertEqual(self.report("first")["job_hash"], self.report("second")["job_hash"])

    def test_concurrent_runs_get_directories_of_their_own(self):
        processes = [self.start("train", self.job, "-q") for _ in range(3)]
        results = [self.finish(process) for process in processes]
        self.assertEqual([code for code, _, _ in results], [0, 0, 0], results)
        self.assertEqual({output for _, output, _ in results},
                         {"runs/digits-1\n", "runs/digits-2\n", "runs/digits-3\n"})

    def test_a_dry_run_leaves_nothing(self):
        temporary = self.scratch / "tmp"
        temporary.mkdir()
        before = sorted(self.scratch.rglob("*"))
        result = self.tandem("train", self.job, "--dry-run", env=self.environment(TMPDIR=str(temporary)))
        self.assertEqual(result.stdout, "")
        self.assertIn("dry run", result.stderr)
        self.assertEqual(sorted(self.scratch.rglob("*")), before)

    def test_a_dry_run_refuses_what_the_run_would(self):
        for override in ("train.schedule.warmup_steps=1000000", "train.eval_every_epochs=1000000"):
            mistake = [override, "train.early_stop.patience=1"]
            whole = self.tandem("train", self.job, *mistake, "--out", "run", code=2)
            dry = self.tandem("train", self.job, *mistake, "--dry-run", code=2)
            self.assertIn(dry.stderr.splitlines()[0], whole.stderr)
            shutil.rmtree(self.scratch / "run", ignore_errors=True)
        (self.scratch / "taken").mkdir()
        (self.scratch / "taken" / "file").touch()
        self.assertIn("not empty", self.tandem("train", self.job, "--dry-run", "--out", "taken", code=2).stderr)

    def test_whoever_closes_the_output_does_not_want_it(self):
        for arguments in (["train", self.job, "--out", "run"], ["eval", "run"], ["model", "verify", "run"]):
            command = " ".join(map(str, [self.program, *arguments]))
            subprocess.run(["sh", "-c", command + " >&- 2>&- <&-"], cwd=self.scratch, timeout=PATIENCE_S, check=True)
        self.assertEqual(self.report("run")["status"], "finished")

    def test_quiet_is_quiet(self):
        self.assertEqual(self.tandem("train", self.job, "-q").stderr, "")

    def test_a_job_from_standard_input(self):
        self.tandem("train", "-", "--out", "run", input=self.job.read_text())
        self.assertEqual(self.report("run")["status"], "finished")

    def test_data_that_is_missing(self):
        errors = self.tandem("train", self.job, "data.source=csv", "data.path=absent.csv", "--out", "run", code=3).stderr
        self.assertIn("absent.csv", errors)
        report = self.report("run")
        self.assertEqual((report["status"], report["error"]["code"]), ("failed", "not_found"))

    def test_paths_in_a_job_are_taken_from_its_directory(self):
        folder = self.scratch / "folder"
        folder.mkdir()
        rows = "\n".join(f"{i % 7},{i % 3},{i % 2}" for i in range(200))
        (folder / "table.csv").write_text("a,b,label\n" + rows + "\n")
        job = folder / "table.toml"
        job.write_text('name = "table"\n[model]\nkind = "softmax"\n[data]\nsource = "csv"\npath = "table.csv"\n'
                       '[train]\nepochs = 1\n')
        self.tandem("train", job, "--out", "run")
        # The model still finds its data, from anywhere; an override is taken from where the user is.
        self.tandem("eval", "run")
        self.tandem("eval", "run", "data.path=folder/table.csv")

    def test_new_test_data_are_read_as_the_model_was_trained(self):
        rows = "\n".join(f"{i * i},{'red' if i % 3 else 'blue'},{'even' if i % 2 else 'odd'}" for i in range(200))
        table = self.scratch / "table.csv"
        table.write_text("size,colour,kind\n" + rows + "\n")
        job = self.scratch / "table.toml"
        job.write_text('name = "table"\n[model]\nkind = "softmax"\n[data]\nsource = "csv"\npath = "table.csv"\n'
                       '[train]\nepochs = 2\n')
        self.tandem("train", job, "--out", "run")
        parts = [json.loads(self.tandem("eval", "run", "--part", part, "--json").stdout)
                 for part in ("train", "validation", "test")]
        # All rows as new data, without the file of the training: their loss is that of all parts.
        table.rename(self.scratch / "new.csv")
        new = json.loads(self.tandem("eval", "run", "data.test_path=new.csv", "--json").stdout)
        self.assertEqual(new["samples"], 200)
        for name in ("loss", "accuracy"):
            self.assertAlmostEqual(new[name], sum(part["samples"] * part[name] for part in parts) / 200, places=5)
        (self.scratch / "other.csv").write_text("size,colour,kind\n5,red,uneven\n")
        self.assertIn("`uneven`", self.tandem("eval", "run", "data.test_path=other.csv", code=2).stderr)

    def test_ratings_are_learnt_evaluated_and_predicted(self):
        job = self.scratch / "ratings.toml"
        job.write_text('name = "ratings"\n[model]\nkind = "matrix_factorization"\ndim = 8\nscale = 0.2\n'
                       '[data]\nsource = "ratings"\nusers = 200\nitems = 150\nsamples = 40000\nnoise = 0.3\n'
                       '[train]\nepochs = 8\nbatch = 128\nloss = "mse"\noptimizer = { kind = "adam", lr = 0.01 }\n')
        told = json.loads(self.tandem("train", job, "--out", "run", "--json").stdout)["eval"]
        # The noise is all that is left to predict; biases alone come to 0.58.
        self.assertLess(told["rmse"], 0.34)
        self.assertGreater(told["rmse"], 0.28)
        self.assertAlmostEqual(told["rmse"] ** 2, told["loss"])
        self.assertIsNone(told["accuracy"])
        measured = json.loads(self.tandem("eval", "run", "--json").stdout)
        self.assertEqual(measured["rmse"], told["rmse"])
        self.assertIn(f"rmse {told['rmse']:.4f}", self.tandem("eval", "run").stdout)
        (self.scratch / "new.csv").write_text("item,user\n149,199\n0,0\n")
        lines = [json.loads(line) for line in self.tandem("predict", "run", "new.csv", "--json").stdout.splitlines()]
        self.assertTrue(all(0 < line["values"][0] < 7 for line in lines), lines)
        (self.scratch / "new.csv").write_text("item,user\n150,0\n")
        self.assertIn("line 2, column `item`: the row 150 is outside its table, which has 150 rows",
                      self.tandem("predict", "run", "new.csv", code=2).stderr)

    def train_on(self, rows, *overrides):
        (self.scratch / "table.csv").write_text("\n".join(rows) + "\n")
        self.tandem("train", self.job, "--out", "run", "data.source=csv", "data.path=table.csv", "train.epochs=1",
                    'model={ kind = "softmax" }', *overrides)

    def test_a_file_of_any_name_is_predicted(self):
        self.train_on((f"{i % 10},{i % 7},{i / 70}" for i in range(100)), "train.loss=mse")
        name = os.fsdecode(b"bad\xff.csv")
        (self.scratch / name).write_text("1,2\n")
        line = json.loads(self.tandem("predict", "run", name, "--json").stdout)
        self.assertEqual((line["file"], len(line["values"])), ("bad\ufffd.csv", 1))

    def test_directories_of_any_name_are_trained_in(self):
        place = self.scratch / os.fsdecode(b"place\xff")
        place.mkdir()
        job = self.job.rename(place / "job.toml")
        self.tandem("train", job, "--out", place / "run", "train.epochs=1", errors="replace")
        self.assertEqual(json.loads((place / "run/report.json").read_text())["status"], "finished")
        self.tandem("resume", place / "run", "train.epochs=2", errors="replace")
        self.tandem("model", "verify", place / "run", errors="replace")
        failed = self.tandem("train", job, "--out", place / "other", "data.source=csv", "data.path=none.csv", "data.label=0",
                             code=3, errors="replace")
        self.assertIn("none.csv", failed.stderr)
        self.assertNotIn("not a valid message", failed.stderr)

    def test_names_in_files_do_not_command_the_terminal(self):
        self.train_on(f'{i},"{"red" if i % 2 else "blue"}\x1b[2J\t\n"' for i in range(100))
        (self.scratch / "one.csv").write_text("1\n")
        fields = self.tandem("predict", "run", "one.csv", "--top", "2").stdout.split("\t")
        self.assertEqual(len(fields), 6)
        self.assertEqual({fields[2], fields[4]}, {"red?[2J??", "blue?[2J??"})
        header = json.dumps({"a\x1b[2J\nb": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                             "__metadata__": {"k\x1b": "v\x1b"}}).encode()
        (self.scratch / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        summary = self.tandem("model", "summary", "m.safetensors").stdout
        self.assertIn("a?[2J?b", summary)
        self.assertIn("k?: v?", summary)


class TrainedModel(TandemTest):
    def setUp(self):
        super().setUp()
        self.tandem("train", self.job, "-q", "--out", "run")

    def test_evaluates_to_what_the_report_says(self):
        result = json.loads(self.tandem("eval", "run", "--json").stdout)
        self.assertAlmostEqual(result["accuracy"], self.report("run")["eval"]["accuracy"], places=6)
        self.assertAlmostEqual(result["loss"], self.report("run")["eval"]["loss"], places=5)
        self.assertIn("validation", self.tandem("eval", "run/model.safetensors", "--part", "validation").stdout)

    def test_predicts_classes_with_probabilities(self):
        write_npy(self.scratch / "two.npy", (2, 8, 8), [float(i % 16) for i in range(128)])
        lines = self.tandem("predict", "run", "two.npy", "--top", "3", "--json").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        for line in map(json.loads, lines):
            self.assertEqual(len(line["top"]), 3)
            self.assertTrue(0 < line["probability"] <= 1)
        self.tandem("predict", "run", "absent.npy", code=3)
        write_npy(self.scratch / "swapped.npy", (2, 4, 16), [0.0] * 128)
        self.assertIn("2x4x16", self.tandem("predict", "run", "swapped.npy", code=2).stderr)

    def test_is_summarised_verified_and_exported(self):
        summary = json.loads(self.tandem("model", "summary", "run", "--json").stdout)
        self.assertEqual(summary["weights_hash"], self.report("run")["weights_hash"])
        self.assertEqual(summary["count"], 64 * 10 + 10)
        self.assertIn("650", self.tandem("model", "summary", "run").stdout)
        self.assertIn("ok", self.tandem("model", "verify", "run").stdout)
        self.assertEqual(self.tandem("model", "export", "run", "--out", "m.npz").stdout, "m.npz\n")
        self.assertEqual((self.scratch / "m.npz").read_bytes()[:2], b"PK")
        self.tandem("model", "export", "run", "--out", "m.npz", code=2)
        self.tandem("model", "export", "run", "--out", "copy.safetensors")
        copy = json.loads(self.tandem("model", "summary", "copy.safetensors", "--json").stdout)
        self.assertEqual(copy["weights_hash"], summary["weights_hash"])

    def test_a_flipped_byte_is_noticed_by_everyone(self):
        path = self.scratch / "run/model.safetensors"
        content = bytearray(path.read_bytes())
        content[-5] ^= 1
        path.write_bytes(content)
        for command in (["model", "verify"], ["model", "summary"], ["eval"]):
            self.assertIn("error:", self.tandem(*command, "run", code=4).stderr)


if __name__ == "__main__":
    main()
