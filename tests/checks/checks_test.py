"""The checks find what they are for: each test breaks a rule in a small made-up project."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

LAYERS = "base:\nwire: base\nmodel: base +torch\n"


class Project:
    """A project in a temporary directory."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, text in {"layers.txt": LAYERS, "src/base/a.h": "#pragma once\n", **files}.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def check(self, name, *arguments):
        """Runs check_NAME.py; its exit code and output."""
        done = subprocess.run([sys.executable, "-B", HERE / f"check_{name}.py", self.root, *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class ChecksTest(unittest.TestCase):
    def project(self, files):
        project = Project(files)
        self.addCleanup(project.folder.cleanup)
        return project

    def assert_finds(self, words, files, check, *arguments):
        code, output = self.project(files).check(check, *arguments)
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def assert_clean(self, files, check, *arguments):
        code, output = self.project(files).check(check, *arguments)
        self.assertEqual(code, 0, output)


class LayersTest(ChecksTest):
    def test_accepts_lower_layers(self):
        self.assert_clean({"src/wire/b.cc": '#include "base/a.h"\n#include <vector>\n',
                           "src/model/c.cc": "#include <torch/torch.h>\n",
                           "src/wire/CMakeLists.txt": "tandem_library(wire SOURCES b.cc LINKS tandem_base)\n"}, "layers")

    def test_finds_an_include_upwards(self):
        self.assert_finds("base/ may not include wire/b.h", {"src/base/b.cc": '#include "wire/b.h"\n'}, "layers")

    def test_finds_libtorch_outside_model(self):
        self.assert_finds("may not include libtorch", {"src/wire/b.cc": "#include <ATen/ATen.h>\n"}, "layers")

    def test_finds_a_link_upwards(self):
        self.assert_finds("may not link tandem_wire",
                          {"src/base/CMakeLists.txt": "tandem_library(base LINKS tandem_wire)\n"}, "layers")

    def test_finds_libtorch_in_the_light_program(self):
        self.assert_finds("may not link tandem_model",
                          {"apps/tandem/CMakeLists.txt": "target_link_libraries(tandem tandem_model)\n"}, "layers")

    def test_finds_a_folder_without_a_line(self):
        self.assert_finds("has no line", {"src/other/b.h": ""}, "layers")

    def test_finds_a_public_header_that_shows_our_insides(self):
        public = {"layers.txt": LAYERS + "library: base\n", "src/library/b.cc": '#include "tandem/b.h"\n'}
        self.assert_finds("may not include base/a.h", {**public, "include/tandem/b.h": '#include "base/a.h"\n'}, "layers")
        self.assert_finds("base/ may not include tandem/b.h", {**public, "src/base/b.cc": '#include "tandem/b.h"\n'}, "layers")
        self.assert_clean({**public, "include/tandem/b.h": '#include "tandem/c.h"\n'}, "layers")

    def test_finds_long_files(self):
        self.assert_finds("601 lines", {"src/base/b.cc": "\n" * 601}, "layers")

    def test_refuses_a_cycle(self):
        self.assert_finds("before they are declared", {"layers.txt": "base: wire\nwire: base\n"}, "layers")


class HeadersTest(ChecksTest):
    def test_accepts_headers_that_stand_alone(self):
        self.assert_clean({"src/base/b.h": '#pragma once\n#include <string>\n#include "base/a.h"\nstd::string b();\n'},
                          "headers", "g++")

    def test_finds_a_header_that_needs_another(self):
        self.assert_finds("does not compile alone", {"src/base/b.h": "#pragma once\nstd::string b();\n"}, "headers", "g++")

    def test_finds_what_precompiled_headers_hide(self):
        source = {"src/base/b.cc": '#include "base/b.h"\n'}
        for code, words in (("std::string b();", "uses std::string without <string>"), ("using fmt::print;", "uses fmt::"),
                            ("std::mdspan b();", "std::mdspan is of no header")):
            self.assert_finds(words, {**source, "src/base/b.h": f"#pragma once\n{code}  // std::vector\n"}, "headers", "g++")

    def test_finds_a_missing_guard(self):
        self.assert_finds("no #pragma once", {"src/base/b.h": "struct B {};\n"}, "headers", "g++")

    def test_asks_that_slow_headers_come_first_somewhere(self):
        slow = {"src/model/b.h": "#pragma once\n#include <torch/torch.h>\n"}
        self.assert_finds("no source includes it first", slow, "headers", "g++")
        self.assert_clean({**slow, "src/model/b.cc": '#include "model/b.h"\n'}, "headers", "g++")


class WordsTest(ChecksTest):
    def test_finds_paths_of_one_machine(self):
        self.assert_finds("absolute path", {"notes.md": "see /" + "root/x\n"}, "words")

    def test_finds_what_is_left_for_later(self):
        self.assert_finds("left for later", {"src/base/b.cc": "// TO" + "DO: more\n"}, "words")


class FormatTest(ChecksTest):
    def test_finds_a_badly_formatted_file(self):
        self.assert_finds("src/base/b.cc: not formatted", {"src/base/b.cc": "int  b( );\n"}, "format", "--check")


class DocumentsTest(ChecksTest):
    # Stands for the program: it knows `tandem train [--out DIR]`.
    PROGRAM = """#!/bin/sh
case "$*" in
  --help) echo "Subcommands: train" ;;
  "train --help") echo "  --out DIR" ;;
  *) exit 2 ;;
esac
"""

    def check(self, text):
        project = self.project({"README.md": text, "tandem": self.PROGRAM, "dev": self.PROGRAM, "docs/a.md": "# A heading\n"})
        for program in ("tandem", "dev"):
            (project.root / program).chmod(0o755)
        return project.check("documents", project.root / "tandem")

    def assert_document(self, text, words):
        code, output = self.check(text)
        self.assertEqual((code, words in output), (1, True), output)

    def test_accepts_what_exists(self):
        code, output = self.check("`src/base/a.h`, `base/a.h`, [a](docs/a.md#a-heading)\n```sh\ntandem train JOB.toml --out DIR\n```\n")
        self.assertEqual(code, 0, output)

    def test_finds_broken_links(self):
        self.assert_document("[x](docs/b.md)", "no such file")
        self.assert_document("[x](docs/a.md#other)", "no such heading")

    def test_finds_paths_that_are_gone(self):
        self.assert_document("`src/base/gone.h`", "`src/base/gone.h`: there is no such file")

    def test_finds_unknown_commands_and_flags(self):
        self.assert_document("`tandem trian JOB.toml`", "there is no tandem trian")
        self.assert_document("```sh\ntandem train --ouch\n```\n", "tandem train has no --ouch")
        self.assert_document("`./dev destroy`", "there is no ./dev destroy")


if __name__ == "__main__":
    unittest.main()
