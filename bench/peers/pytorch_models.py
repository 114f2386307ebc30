"""The five workloads in plain PyTorch, with the layers and sizes of Tandem's model kinds of the same names."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, VOCABULARY, CONTEXT = 10, 96, 64


class Residual(nn.Module):
    """Two 3x3 convolutions with batch-norm and a skip."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Residual(width, outputs, stride))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class Decoder(nn.Module):
    """Attention and a feed-forward part, each behind a layer-norm, each added."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, time_steps, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, time_steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + mask, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, time_steps, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """A character-level decoder."""

    def __init__(self, width=128, heads=4, blocks=4):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Parameter(torch.zeros(CONTEXT, width))
        self.blocks = nn.ModuleList([Decoder(width, heads) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1))

    def forward(self, tokens):
        x = self.token(tokens) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x)).flatten(0, 1)


MODELS = {
    "softmax": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, CLASSES)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                                 nn.Linear(512, CLASSES)),
    "cnn": lambda: nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
    "resnet18": resnet18,
    "gpt": Gpt,
}


def make_data(workload):
    """Random inputs and targets, in memory: only the step is measured."""
    if workload == "gpt":
        return torch.randint(0, VOCABULARY, (512, CONTEXT)), torch.randint(0, VOCABULARY, (512, CONTEXT))
    shape = (256, 3, 32, 32) if workload == "resnet18" else (2048, 1, 28, 28)
    return torch.randn(shape), torch.randint(0, CLASSES, (shape[0],))
