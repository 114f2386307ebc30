"""A terminal that nobody reads, stopped with Ctrl-S or simply left alone, does not hold up a run."""
import fcntl
import os
import select
import signal
import termios
import time

from harness import PATIENCE_S, TandemTest, main, wait_for


class Terminal(TandemTest):
    def setUp(self):
        super().setUp()
        self.ours, self.theirs = os.openpty()
        self.addCleanup(os.close, self.ours)
        self.addCleanup(os.close, self.theirs)
        self.options = {"stderr": self.theirs, "env": self.environment(TERM="xterm", LC_ALL="C.UTF-8")}

    def stop(self):
        """As Ctrl-S does."""
        termios.tcflow(self.theirs, termios.TCOOFF)

    def fill(self):
        """Leaves no room for anything, as a reader that fell asleep long ago."""
        # A description of its own: O_NONBLOCK would otherwise hold for the program under test as well.
        filler = os.open(os.ttyname(self.theirs), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            while True:
                os.write(filler, b"x" * 1024)
        except BlockingIOError:
            pass
        finally:
            os.close(filler)

    def read_until(self, text):
        seen = b""
        deadline = time.monotonic() + PATIENCE_S
        while text not in seen:
            ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"{text} did not come: {seen[-2000:]}")
            seen += os.read(self.ours, 65536)
        return seen

    def lines_of(self, run):
        return (self.scratch / run / "metrics.jsonl").read_text().count("\n")

    def check_that_it_finishes(self):
        process = self.start("train", self.job, "--out", "run", **self.options)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, output), (0, "run\n"))
        self.assertEqual(self.report("run")["status"], "finished")

    def test_a_stopped_terminal_does_not_hold_up_a_run(self):
        self.stop()
        self.check_that_it_finishes()

    def test_a_full_terminal_does_not_hold_up_a_run(self):
        self.fill()
        self.check_that_it_finishes()

    def test_a_terminal_that_is_read_again_shows_where_the_run_is(self):
        process, _ = self.start_training("run", "train.eval_every_epochs=1000000", **self.options)
        self.read_until(b"step ")
        self.stop()
        before = self.lines_of("run")
        wait_for(lambda: self.lines_of("run") > before + 20, "the run to go on behind a stopped terminal")
        self.assertFalse(fcntl.fcntl(self.theirs, fcntl.F_GETFL) & os.O_NONBLOCK, "the terminal is others' as well")
        termios.tcflow(self.theirs, termios.TCOON)
        process.send_signal(signal.SIGINT)
        seen = self.read_until(b"cancelled")
        self.assertLess(seen.count(b"\r"), 20, "frames that were stale are left out")
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, output), (130, "run\n"))

    def test_the_last_words_wait_for_a_reader_who_comes_back(self):
        self.stop()
        process = self.start("train", self.job, "--out", "run", **self.options)
        wait_for((self.scratch / "run/report.json").exists, "the run's end")
        termios.tcflow(self.theirs, termios.TCOON)
        self.read_until(b"finished")
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0)


if __name__ == "__main__":
    main()
