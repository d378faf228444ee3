"""Train the x2 super-resolution network of the demo and write it as a ``.tflite`` file.

    pip install torch numpy pillow scikit-image scikit-learn flatbuffers ai-edge-litert tqdm
    python examples/train_super_resolution.py

The network learns to undo Pillow's bicubic reduction to half the size. It sees only photographs
that ship with scikit-image and scikit-learn under a license that the package states (``TRAINING``);
the photographs in ``HELD_OUT`` measure the result. The licenses are in the file's metadata.

Every layer accepts any height and width, so the model takes images of any size and batch:
``image`` [N, H, W, 3] -> ``image_x2`` [N, 2H, 2W, 3], both float32 RGB in 0..1. The output may
overshoot that range a little; clip it before display.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter
from photographs import HELD_OUT, TRAINING, Photo
from PIL import Image
from tflite_writer import Description, TfliteWriter
from torch import Tensor, nn
from tqdm import tqdm

WIDTH = 32
DEPTH = 5
SCALES = (1.0, 0.8, 0.6)
DEFAULT_SIZE = 256
MAX_DISAGREEMENT = 1e-4

ABOUT = Description(
    "x2 super-resolution",
    "doubles the width and the height of an RGB image",
    "Apache-2.0",
    image=("image", "an RGB image"),
    result=("image_x2", "the enlarged image, which may overshoot 0 to 1 a little"),
    mean=0,
    std=255,
)


def degrade(image: Image.Image, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The image at `scale`, [2h, 2w, 3], and its bicubic half, [h, w, 3]: (low, high), uint8."""
    width, height = (int(side * scale) // 2 for side in image.size)
    if scale == 1.0:
        high = image.crop((0, 0, 2 * width, 2 * height))
    else:
        high = image.resize((2 * width, 2 * height), Image.Resampling.BICUBIC)
    low = high.resize((width, height), Image.Resampling.BICUBIC)
    return np.array(low), np.array(high)


def batches(photos: tuple[Photo, ...], count: int, side: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless random (low [N, 3, side, side], high [N, 3, 2 side, 2 side]) pairs in 0..1.

    Each crop is rotated by a quarter turn, mirrored, and has its color channels permuted.
    """
    pairs = [
        [torch.from_numpy(pixels).permute(2, 0, 1) for pixels in degrade(photo.load(), scale)]
        for photo in photos
        for scale in SCALES
    ]

    def crop() -> tuple[Tensor, Tensor]:
        low, high = random.choice(pairs)
        y, x = (random.randrange(length - side + 1) for length in low.shape[1:])
        low = low[:, y : y + side, x : x + side]
        high = high[:, 2 * y : 2 * (y + side), 2 * x : 2 * (x + side)]
        channels = random.sample(range(3), 3)
        turns = random.randrange(4)
        low, high = (t[channels].rot90(turns, (1, 2)) for t in (low, high))
        return (low.flip(-1), high.flip(-1)) if random.random() < 0.5 else (low, high)

    while True:
        low, high = zip(*(crop() for _ in range(count)), strict=True)
        yield torch.stack(low) / 255, torch.stack(high) / 255


class SuperResolution(nn.Module):
    """Residual convolutions at low resolution, then DEPTH_TO_SPACE: [N, 3, H, W] -> [.., 2H, 2W].

    `skip` is initialized to nearest-neighbor enlargement and `tail` to zero.
    """

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(3, WIDTH, 5, padding="same"), nn.PReLU(WIDTH))
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding="same"), nn.PReLU(WIDTH))
            for _ in range(DEPTH)
        )
        self.tail = nn.Conv2d(WIDTH, 12, 3, padding="same")
        self.skip = nn.Conv2d(3, 12, 1)
        for parameter in (*self.tail.parameters(), self.skip.bias):
            nn.init.zeros_(parameter)
        self.skip.weight.data = torch.eye(3).repeat(4, 1)[..., None, None]

    def forward(self, image: Tensor) -> Tensor:
        features = self.head(image)
        for layer in self.body:
            features = features + layer(features)
        phases = self.skip(image) + self.tail(features)
        # In the 12 channels, color is innermost for DEPTH_TO_SPACE, outermost for pixel_shuffle.
        phases = phases.unflatten(1, (4, 3)).transpose(1, 2).flatten(1, 2)
        return nn.functional.pixel_shuffle(phases, 2)


def train(args: argparse.Namespace) -> SuperResolution:
    """Train a network with the L1 loss and Adam; the learning rate warms up, then decays."""
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    network = SuperResolution().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, args.learning_rate, args.steps, pct_start=0.1
    )
    data = islice(batches(TRAINING, args.batch, args.patch), args.steps)
    progress = tqdm(data, "training", args.steps, unit="step")
    for low, high in progress:
        loss = (network(low.contiguous(memory_format=torch.channels_last)) - high).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress.set_postfix(loss=f"{loss.item():.4f}", refresh=False)
    return network.eval()


class Writer(TfliteWriter):
    """Writes the layers of the network."""

    def activation(self, name: str, channels: int, scale: int = 1) -> int:
        """Add a tensor of any batch, height and width; `scale` is relative to the input's size."""
        shape = [1, scale * DEFAULT_SIZE, scale * DEFAULT_SIZE, channels]
        return self.tensor(name, shape, shapeSignature=[-1, -1, -1, channels])

    def conv(self, name: str, x: int, conv: nn.Conv2d) -> int:
        weights = self.constant(f"{name}/weights", array(conv.weight.permute(0, 2, 3, 1)))
        bias = self.constant(f"{name}/bias", array(conv.bias))
        options = tfl.Conv2DOptionsT(padding=tfl.Padding.SAME, strideW=1, strideH=1)
        output = self.activation(name, conv.out_channels)
        return self.operator("CONV_2D", [x, weights, bias], output, options)

    def conv_prelu(self, name: str, x: int, layer: nn.Sequential) -> int:
        conv, prelu = layer
        x = self.conv(f"{name}/conv", x, conv)
        alpha = self.constant(f"{name}/alpha", array(prelu.weight[None, None]))
        return self.operator("PRELU", [x, alpha], self.activation(name, conv.out_channels))

    def add(self, name: str, x: int, y: int) -> int:
        output = self.activation(name, self.graph.tensors[x].shape[-1])
        return self.operator("ADD", [x, y], output, tfl.AddOptionsT())


def array(values: Tensor) -> np.ndarray:
    return values.detach().numpy()


def to_tflite(network: SuperResolution) -> bytes:
    """The content of a ``.tflite`` file, with the layers in the order of `forward`."""
    writer = Writer()
    image = writer.activation("image", 3)
    features = writer.conv_prelu("head", image, network.head)
    for i, layer in enumerate(network.body):
        branch = writer.conv_prelu(f"body{i}", features, layer)
        features = writer.add(f"body{i}/add", features, branch)
    skip = writer.conv("skip", image, network.skip)
    phases = writer.add("phases", skip, writer.conv("tail", features, network.tail))
    enlarged = writer.activation("image_x2", 3, scale=2)
    writer.operator("DEPTH_TO_SPACE", [phases], enlarged, tfl.DepthToSpaceOptionsT(blockSize=2))
    licences = "Trained on these photographs:\n" + "".join(f"{photo}\n" for photo in TRAINING)
    return writer.finish(image, enlarged, ABOUT, licences)


def enlarge(model: bytes, image: np.ndarray) -> np.ndarray:
    """Run the file on LiteRT's CPU: float32 [N, H, W, 3] -> [N, 2H, 2W, 3]."""
    return Interpreter(model_content=model).get_signature_runner()(image=image)["image_x2"]


def disagreement(model: bytes, network: SuperResolution) -> float:
    """The largest difference between the file's and the network's output, over some shapes."""

    def difference(*shape: int) -> float:
        image = torch.rand(shape)
        with torch.no_grad():
            expected = network(image.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return np.abs(enlarge(model, image.numpy()) - expected.numpy()).max()

    return max(difference(1, DEFAULT_SIZE, DEFAULT_SIZE, 3), difference(2, 37, 51, 3))


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Peak signal-to-noise ratio of two uint8 RGB images in dB, over all pixels and channels."""
    return 10 * np.log10(255**2 / np.mean((a.astype(np.float64) - b) ** 2))


def psnr_table(model: bytes) -> str:
    """A Markdown table: PSNR of bicubic enlargement and of the network, per held-out photograph."""
    rows = ["| photograph | bicubic | network | gain |", "| --- | --- | --- | --- |"]
    for photo in HELD_OUT:
        low, high = degrade(photo.load())
        size = high.shape[1::-1]
        bicubic = psnr(np.array(Image.fromarray(low).resize(size, Image.Resampling.BICUBIC)), high)
        output = enlarge(model, low[None].astype(np.float32) / 255)[0]
        network = psnr(np.rint(output.clip(0, 1) * 255).astype(np.uint8), high)
        gain = network - bicubic
        rows.append(f"| {photo.name} | {bicubic:.2f} dB | {network:.2f} dB | {gain:+.2f} dB |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).with_name("models") / "super_resolution_x2.tflite"
    parser.add_argument("--output", type=Path, default=default, help="file to write")
    parser.add_argument("--steps", type=int, default=25_000, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=16, help="crops per step")
    parser.add_argument("--patch", type=int, default=32, help="side of a crop, in input pixels")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    network = train(args)
    model = to_tflite(network)
    if (worst := disagreement(model, network)) > MAX_DISAGREEMENT:
        raise SystemExit(f"the file differs from the network by {worst:.1e}: not written")
    args.output.write_bytes(model)
    parameters = sum(p.numel() for p in network.parameters())
    print(f"{args.output}: {len(model)} bytes, {parameters} parameters, off by {worst:.1e}")
    print(psnr_table(model))


if __name__ == "__main__":
    main()
