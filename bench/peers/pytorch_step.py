"""A training step in PyTorch as a peer to measure against: pytorch_step.py WORKLOAD BATCH

Builds the workload once and warms up, then answers each line on stdin with one JSON line on stdout, so that a caller can
alternate it with what it is compared with:

    run STEPS   ->  {"ms_per_step": ..., "samples_per_s": ..., "loss": ...}

The first line that it prints, before any question, describes it. It ends when stdin does. float32, SGD with momentum, one
thread; with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment it is one rank of DistributedDataParallel on
Gloo, BATCH is each rank's and samples/s are those of all. The caller sets OPENBLAS_CORETYPE and ATEN_CPU_CAPABILITY. Needs Debian's python3-torch and Debian's own Python.
"""
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

from pytorch_models import MODELS, make_data

WARM_UP_STEPS = 5


def answer(**fields):
    print(json.dumps(fields), flush=True)


class Workload:
    def __init__(self, name, batch):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.batch = batch
        self.model = MODELS[name]()
        self.ranks = int(os.environ.get("WORLD_SIZE", "1"))
        if self.ranks > 1:
            torch.distributed.init_process_group("gloo")
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.inputs, self.targets = make_data(name)
        self.done = 0

    def step(self):
        begin = (self.done * self.batch) % (len(self.inputs) - self.batch + 1)
        end = begin + self.batch
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self.inputs[begin:end]), self.targets[begin:end].flatten())
        loss.backward()
        self.optimizer.step()
        self.done += 1
        return loss

    def run(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        seconds = (time.perf_counter() - begin) / steps
        answer(ms_per_step=seconds * 1e3, samples_per_s=self.batch * self.ranks / seconds, loss=loss.item())


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in MODELS or not sys.argv[2].isdigit():
        sys.exit(f"usage: pytorch_step.py WORKLOAD BATCH   (WORKLOAD: {' '.join(MODELS)})")
    workload = Workload(sys.argv[1], int(sys.argv[2]))
    for _ in range(WARM_UP_STEPS):
        workload.step()
    answer(peer="pytorch", version=torch.__version__, workload=sys.argv[1], batch=workload.batch,
           parameters=sum(p.numel() for p in workload.model.parameters()))
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "run" or not words[1].isdigit() or int(words[1]) == 0:
            sys.exit(f"expected 'run STEPS', got {line.strip()!r}")
        workload.run(int(words[1]))


if __name__ == "__main__":
    main()
