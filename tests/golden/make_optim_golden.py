#!/usr/bin/python3
"""Makes optim.txt, the numbers that src/optim/optimizer_test.cc compares with: PyTorch's optimizers, step by step.

    /usr/bin/python3 tests/golden/make_optim_golden.py > tests/golden/optim.txt

Numbers are hexadecimal floats, so they are exact. PyTorch's plain kernels are used because they, like Tandem's, have no
fused multiply-add; Tandem must give the same bits.
"""

import os
import re

os.environ["ATEN_CPU_CAPABILITY"] = "default"

import torch  # noqa: E402: it reads the environment when it loads.

SIZE = 19  # More than a vector register holds, and not a multiple of one.
STEPS = 6

CASES = [
    ("sgd", dict(lr=0.05)),
    ("sgd", dict(lr=0.05, weight_decay=0.01, l1=0.002)),
    ("sgd", dict(lr=0.05, momentum=0.9)),
    ("sgd", dict(lr=0.03, momentum=0.8, weight_decay=0.1)),
    ("sgd", dict(lr=0.05, momentum=0.9, nesterov=1, weight_decay=0.01)),
    ("adam", dict(lr=0.01)),
    ("adam", dict(lr=0.003, beta1=0.8, beta2=0.99, epsilon=1e-6, weight_decay=0.1, l1=0.01)),
    ("adamw", dict(lr=0.01, weight_decay=0.1)),
    ("adamw", dict(lr=0.01, weight_decay=0.01, l1=0.02)),
    ("adagrad", dict(lr=0.1)),
    ("adagrad", dict(lr=0.05, weight_decay=0.01, epsilon=1e-6, l1=0.001)),
    ("sgd", dict(lr=0.05, momentum=0.9, clip_value=0.5)),
    ("adam", dict(lr=0.01, clip_norm=1.0)),
    ("sgd", dict(lr=0.05, clip_value=0.5, clip_norm=100.0)),
]


def make(kind, parameter, o):
    decay = o.get("weight_decay", 0)
    if kind == "sgd":
        return torch.optim.SGD([parameter], o["lr"], momentum=o.get("momentum", 0),
                               nesterov=bool(o.get("nesterov", 0)), weight_decay=decay)
    if kind == "adagrad":
        return torch.optim.Adagrad([parameter], o["lr"], weight_decay=decay, eps=o.get("epsilon", 1e-8))
    adam = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return adam([parameter], o["lr"], betas=(o.get("beta1", 0.9), o.get("beta2", 0.999)),
                eps=o.get("epsilon", 1e-8), weight_decay=decay)


def line(word, tensor):
    print(word, *(re.sub("0+p", "p", float(value).hex()) for value in tensor))


def main():
    torch.manual_seed(20221113)
    print(f"# Made by make_optim_golden.py with PyTorch {torch.__version__}: the parameters at the start, then for each")
    print("# step the gradient and the parameters after it.")
    for kind, options in CASES:
        print("case", kind, *(f"{key}={value}" for key, value in options.items()))
        parameter = torch.nn.Parameter(torch.randn(SIZE))
        parameter.data[3] = 0
        line("start", parameter.data)
        optimizer = make(kind, parameter, options)
        for _ in range(STEPS):
            gradient = torch.randn(SIZE)
            gradient[5] = 0
            line("gradient", gradient)
            parameter.grad = gradient
            if "clip_value" in options:
                torch.nn.utils.clip_grad_value_([parameter], options["clip_value"])
            if "clip_norm" in options:
                torch.nn.utils.clip_grad_norm_([parameter], options["clip_norm"])
            if "l1" in options:
                parameter.grad.add_(parameter.data.sign(), alpha=options["l1"])
            optimizer.step()
            line("after", parameter.data)


main()
