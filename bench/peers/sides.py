"""The two sides of a comparison: processes that live at the same time and take turns."""
import json
import re
import subprocess
import sys

# Debian's own Python: another one on the PATH does not see python3-torch.
PYTHON = "/usr/bin/python3"


def kernel_environment(tandem):
    """What `tandem` gives a worker of one thread (src/cluster/environment.cc), for both sides."""
    # Its exit code tells whether all is well with the machine, which is not the question here.
    checks = json.loads(subprocess.run([tandem, "doctor", "--json"], capture_output=True, text=True).stdout)
    finding = next(check["finding"] for check in checks if check["name"] == "kernels")
    chosen = dict(re.findall(r"([A-Z_]+)=(\w+)", finding))
    missing = {"OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"} - chosen.keys()
    if missing:
        sys.exit(f"error: `tandem doctor` does not say {', '.join(sorted(missing))}: {finding}")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**chosen, "DNNL_MAX_CPU_ISA": chosen["ONEDNN_MAX_CPU_ISA"], **threads}


class Side:
    """A process that answers "run STEPS" with a JSON line."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.best = 0.0

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"error: {self.process.args[0]} ended with exit code {self.process.wait()}")
        return json.loads(line)

    def run(self, steps):
        self.process.stdin.write(f"run {steps}\n")
        self.process.stdin.flush()
        self.best = max(self.best, self.answer()["samples_per_s"])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Team:
    """Ranks of one program, or independent copies of it, that answer together."""

    def __init__(self, command, environments):
        self.sides = [Side(command, environment) for environment in environments]
        self.best = 0.0

    def hear(self):
        """The line in which each describes itself."""
        for side in self.sides:
            side.answer()

    def run(self, steps, together):
        """`together` makes one number of all answers."""
        for side in self.sides:
            side.process.stdin.write(f"run {steps}\n")
            side.process.stdin.flush()
        answers = [side.answer()["samples_per_s"] for side in self.sides]
        self.best = max(self.best, together(answers))

    def end(self):
        for side in self.sides:
            side.process.stdin.close()
        for side in self.sides:
            side.process.wait()
