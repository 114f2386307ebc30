#!/usr/bin/python3
"""Makes model.txt: the losses of PyTorch training the standard models from known weights on known data.

Needs Debian's python3-torch:  tests/golden/make_model_golden.py > tests/golden/model.txt
Weights and data are the formula in `tensor()` below, so that the C++ test (model_golden_test.cc) makes the same ones.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def tensor(shape, first, scale):
    """Numbers in [-1, 1) from their indices, exact in float32, times a scale."""
    hashed = (torch.arange(first, first + math.prod(shape)) * 2654435761) % 2**32
    return ((hashed >> 8).float() / 2**23 - 1.0).mul(scale).view(shape)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Residual(width, outputs, stride))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Decoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, places, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + mask, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, places, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=20, context=12, width=32, heads=4, blocks=2):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.ModuleList([Decoder(width, heads) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
        self.mask = torch.triu(torch.full((context, context), float("-inf")), 1)

    def ordered_parameters(self):
        """In the order of Tandem's slots."""
        yield self.token.weight
        yield self.position
        for part in (*self.blocks, self.norm, self.head):
            yield from part.parameters()

    def forward(self, tokens):
        x = self.token(tokens) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x)).flatten(0, 1)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def set_weights(parameters):
    """Matrices get small numbers; the vectors of norms and biases keep ones and zeros plus smaller ones."""
    first = 0
    for parameter in parameters:
        fan_in = math.prod(parameter.shape[1:]) if parameter.dim() > 1 else 100
        with torch.no_grad():
            start = torch.ones(parameter.shape) if parameter.dim() == 1 and parameter.eq(1).all() else 0
            parameter.copy_(start + tensor(parameter.shape, first, 1 / math.sqrt(fan_in)))
        first += parameter.numel()


def run(name, model, inputs, targets, steps, lr=0.02):
    torch.manual_seed(0)
    parameters = list(model.ordered_parameters() if hasattr(model, "ordered_parameters") else model.parameters())
    set_weights(parameters)
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets.flatten())
        loss.backward()
        optimizer.step()
        print(f"{name} {step} {loss.item():.9g}")


def main():
    torch.set_num_threads(1)
    labels = torch.tensor([(7 * i) % 10 for i in range(16)])
    images = tensor((16, 1, 8, 8), 1000, 1.0)
    run("mlp", mlp(), images, labels, 50)
    run("cnn", cnn(), images, labels, 20)
    run("resnet18", resnet18(), tensor((4, 3, 32, 32), 1000, 1.0), labels[:4], 5, lr=1e-6)
    tokens = torch.tensor([[(5 * i + 3 * j + i * j) % 20 for j in range(12)] for i in range(6)])
    run("gpt", Gpt(), tokens, (tokens + 1) % 20, 20)


if __name__ == "__main__":
    main()
