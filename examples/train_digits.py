"""Train a classifier and a detector of handwritten digits, and write them as ``.tflite`` files.

    pip install '.[examples]' torch scikit-learn tqdm
    python examples/train_digits.py classifier
    python examples/train_digits.py detector

digit_pages.py draws every picture. Its last scans and two of its photographs are not used for
training; they measure the result.

classifier: ``image`` [1, 64, 64, 3] -> ``digit`` [1, 10], probabilities.
detector: ``image`` [1, 256, 256, 3] -> ``boxes`` [1, 1344, 14], one row per cell of three grids:
x and y of the center, width and height as shares of the picture, and the score of each digit.
Ultralytics' YOLOv8 has the same numbers, so its readers read these.

Both inputs are float32 RGB in 0 to 1.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter
from digit_pages import LABELS, SOURCE, Page, Rng, Scans, Style, draw, draw_one, scans
from tflite_writer import Description, TfliteWriter
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from tqdm import tqdm

from gles_apps.vision import YoloDetector, read_detections

MODELS = Path(__file__).with_name("models")
MAX_DISAGREEMENT = 1e-4
SIDE = 256
STRIDES = (8, 16, 32)
"""Pixels of the detector's input, and between the cells of each grid."""
LETTERBOX = 114
POOL = 1000
RATE = 2e-3

Array = np.ndarray
Batch = tuple[Tensor, ...]

CLASSIFIER = Description(
    "digit classifier",
    "names a handwritten digit",
    "Apache-2.0",
    image=("image", "an RGB picture of one handwritten digit"),
    result=("digit", "the probability of each digit"),
    mean=0,
    std=255,
    labels=LABELS,
)
DETECTOR = Description(
    "digit detector",
    "finds handwritten digits",
    "Apache-2.0",
    image=("image", "an RGB picture"),
    result=("boxes", "rows of center x, center y, width, height, and a score for each digit"),
    mean=0,
    std=255,
    labels=LABELS,
)


class Conv(nn.Sequential):
    """A 3x3 convolution with TFLite's SAME padding, batch normalization and ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(
            nn.ZeroPad2d((0, 1, 0, 1) if stride == 2 else 1),
            nn.Conv2d(inputs, outputs, 3, stride, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weights and biases that include the normalization."""
        _, conv, norm, _ = self
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        return conv.weight * scale[:, None, None, None], norm.bias - scale * norm.running_mean


class Classifier(nn.Module):
    """Logits [n, 10] of pictures [n, 3, 64, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            Conv(3, 16, 2), Conv(16, 32, 2), Conv(32, 32), Conv(32, 64, 2), Conv(64, 64),
            Conv(64, 64, 2),
        )  # fmt: skip
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(4 * 4 * 64, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.dropout(self.body(x).permute(0, 2, 3, 1).flatten(1)))

    def loss(self, x: Tensor, digits: Tensor) -> Tensor:
        return F.cross_entropy(self(x), digits, label_smoothing=0.05)


class Detector(nn.Module):
    """Rows [n, 1344, 14] of pictures [n, 3, 256, 256]; scores are logits.

    x and y are relative to the middle of the cell, in strides; width and height are logarithms.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [
                nn.Sequential(
                    Conv(3, 16, 2), Conv(16, 32, 2), Conv(32, 48, 2), Conv(48, 48), Conv(48, 48)
                ),
                nn.Sequential(Conv(48, 64, 2), Conv(64, 64)),
                nn.Sequential(Conv(64, 64, 2), Conv(64, 64)),
            ]
        )
        self.heads = nn.ModuleList(nn.Conv2d(n, 4 + len(LABELS), 1) for n in (48, 64, 64))
        for head in self.heads:
            nn.init.normal_(head.weight, std=0.01)
            head.bias.data = torch.tensor([0, 0, 0.7, 0.7] + [-4.6] * len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        rows = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            rows.append(head(x).flatten(2).transpose(1, 2))
        return torch.cat(rows, 1)

    def decoded(self, x: Tensor) -> Tensor:
        """The output of the file."""
        rows = self(x)
        scale, offset = map(torch.from_numpy, cells())
        boxes = torch.cat([rows[..., :2], rows[..., 2:4].exp()], -1) * scale + offset
        return torch.cat([boxes, rows[..., 4:].sigmoid()], -1)

    def loss(self, x: Tensor, heat: Tensor, boxes: Tensor) -> Tensor:
        """CenterNet's focal loss of the scores (Zhou et al. 2019), and an L1 loss of the boxes.

        Args:
            heat: The target of each score, [n, 1344, 10]; 1 in the cell of a digit.
            boxes: Targets of the boxes, and the share of the loss in the last column, [n, 1344, 5].
        """
        rows = self(x)
        count = (heat == 1).sum().clamp(min=1)
        logits = rows[..., 4:]
        share = logits.sigmoid()
        at = (1 - share) ** 2 * F.logsigmoid(logits) * (heat == 1)
        elsewhere = (1 - heat) ** 4 * share**2 * F.logsigmoid(-logits) * (heat < 1)
        sizes = boxes[..., 2:4]
        off = (rows[..., :2] - boxes[..., :2]).abs() / sizes.exp() + (rows[..., 2:4] - sizes).abs()
        weights = boxes[..., 4:]
        return -(at + elsewhere).sum() / count + 2 * (off * weights).sum() / weights.sum().clamp(1)


@cache
def cells() -> tuple[Array, Array]:
    """The stride of each cell [1344, 1], and its middle and two zeros [1344, 4], as shares."""
    scales = []
    offsets = []
    for stride in STRIDES:
        y, x = (np.indices((SIDE // stride,) * 2).reshape(2, -1) + 0.5) * stride / SIDE
        zeros = np.zeros_like(x)
        offsets.append(np.stack([x, y, zeros, zeros], 1))
        scales.append(np.full((x.size, 1), stride / SIDE))
    return tuple(np.concatenate(parts).astype(np.float32) for parts in (scales, offsets))


def targets(page: Page) -> tuple[Array, Array]:
    """`heat` and `boxes` of a page; see `Detector.loss`.

    Each digit belongs to the grid whose cells are about half as large as it. The cell at its
    center has the heat 1; others have a normal distribution. The next grid counts less the nearer
    it fits, so that it need not decide which of the two a digit belongs to.
    """
    scale, offset = (SIDE * array for array in cells())
    strides = scale[:, 0]
    middles = offset[:, :2]
    heat = np.zeros((len(strides), len(LABELS)), np.float32)
    boxes = np.zeros((len(strides), 5), np.float32)
    for box, digit in zip(page.boxes, page.digits, strict=True):
        center = (box[:2] + box[2:]) / 2
        size = box[2:] - box[:2]
        octaves = np.abs(np.log2(size.max() / (2 * np.array(STRIDES))))
        fit = np.clip(1 - (octaves - octaves.min()), 0, 1)
        distance = (middles - center) / (0.2 * size)
        near = np.exp(-0.5 * (distance**2).sum(1)) * np.repeat(
            fit, [(SIDE // s) ** 2 for s in STRIDES]
        )
        own = np.flatnonzero(strides == STRIDES[octaves.argmin()])
        peak = own[np.abs(middles[own] - center).max(1).argmin()]
        near = np.minimum(near, 0.98)
        near[peak] = 1
        better = near > np.maximum(boxes[:, 4], 0.1)
        stride = strides[better, np.newaxis]
        boxes[better, :2] = (center - middles[better]) / stride
        boxes[better, 2:4] = np.log(size / stride)
        boxes[better, 4] = near[better]
        heat[:, digit] = np.maximum(heat[:, digit], near)
    return heat, boxes


def letterboxed(rng: Rng, scans: Scans) -> Page:
    """A page that fills the detector's input, or its middle."""
    style = Style()
    if rng.random() < 0.5:
        short = int(rng.integers(SIDE // 2, SIDE))
        size = (short, SIDE) if rng.random() < 0.7 else (SIDE, short)
        style = replace(style, size=size, heights=(14, 0.43 * short))
    page = draw(rng, scans, style)
    height, width = style.size
    left = (SIDE - width) // 2
    top = (SIDE - height) // 2
    whole = np.full((SIDE, SIDE, 3), LETTERBOX, np.uint8)
    whole[top : top + height, left : left + width] = page.picture
    return Page(whole, page.boxes + np.float32([left, top, left, top]), page.digits)


def pages(rng: Rng, draw_page: Callable[[Rng, Scans], Page]) -> Iterator[Page]:
    """Endless pages; each is used three times on average, with its color channels permuted."""
    seen, _ = scans()
    pool: list[Page] = []
    while True:
        if len(pool) < POOL:
            pool.append(draw_page(rng, seen))
            page = pool[-1]
        else:
            i = rng.integers(POOL)
            if rng.random() < 1 / 3:
                pool[i] = draw_page(rng, seen)
            page = pool[i]
        yield replace(page, picture=page.picture[..., rng.permutation(3)])


def classifier_batches(rng: Rng, count: int) -> Iterator[Batch]:
    """Endless (pictures [n, 3, 64, 64] in 0 to 1, digits [n])."""
    drawn = pages(rng, draw_one)
    while True:
        batch = list(islice(drawn, count))
        digits = torch.tensor([page.digits[0] for page in batch])
        yield as_tensor([page.picture for page in batch]), digits


def detector_batches(rng: Rng, count: int) -> Iterator[Batch]:
    """Endless (pictures [n, 3, 256, 256] in 0 to 1, heat, boxes); see `targets`."""
    drawn = pages(rng, letterboxed)
    while True:
        batch = list(islice(drawn, count))
        heat, boxes = (np.stack(arrays) for arrays in zip(*map(targets, batch), strict=True))
        pictures = as_tensor([page.picture for page in batch])
        yield pictures, torch.from_numpy(heat), torch.from_numpy(boxes)


def as_tensor(pictures: Sequence[Array]) -> Tensor:
    """uint8 [height, width, 3] each -> [n, 3, height, width] in 0 to 1, channels last in memory."""
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) / 255


def train(network: nn.Module, data: Iterator[Batch], steps: int) -> nn.Module:
    """Train with AdamW, whose rate warms up, then decays; return the average of recent weights."""
    network = network.to(memory_format=torch.channels_last)
    average = copy.deepcopy(network).eval()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, pct_start=0.1)
    progress = tqdm(islice(data, steps), "training", steps, unit="step")
    for step, batch in enumerate(progress):
        loss = network.loss(*batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5)
        optimizer.step()
        schedule.step()
        share = 1 - min(0.998, step / (step + 10))
        states = average.state_dict().values(), network.state_dict().values()
        for old, new in zip(*states, strict=True):
            if old.is_floating_point():
                old.lerp_(new, share)
        progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return average


class Writer(TfliteWriter):
    """Writes the layers of the networks."""

    def shape(self, x: int) -> list[int]:
        return self.graph.tensors[x].shape

    def floats(self, name: str, values: Tensor) -> int:
        return self.constant(name, values.detach().contiguous().numpy())

    def conv(self, name: str, x: int, layer: Conv | nn.Conv2d) -> int:
        """Add a convolution, SAME-padded and with ReLU if it is a `Conv`."""
        is_body = isinstance(layer, Conv)
        weights, bias = layer.folded() if is_body else (layer.weight, layer.bias)
        stride = layer[1].stride[0] if is_body else 1
        _, height, width, _ = self.shape(x)
        options = tfl.Conv2DOptionsT(
            padding=tfl.Padding.SAME,
            strideW=stride,
            strideH=stride,
            fusedActivationFunction=tfl.ActivationFunctionType.RELU * is_body,
        )
        weights = self.floats(f"{name}/weights", weights.permute(0, 2, 3, 1))
        output = self.tensor(name, (1, height // stride, width // stride, len(bias)))
        return self.operator(
            "CONV_2D", [x, weights, self.floats(f"{name}/bias", bias)], output, options
        )

    def concatenated(self, name: str, parts: Sequence[int], axis: int) -> int:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        options = tfl.ConcatenationOptionsT(axis=axis)
        return self.operator("CONCATENATION", parts, self.tensor(name, shape), options)

    def columns(self, name: str, x: int, first: int, count: int) -> int:
        """Add a slice of the last axis of rows [1, n, m]."""
        shape = (*self.shape(x)[:2], count)
        begin = self.constant(f"{name}/begin", np.array([0, 0, first]))
        size = self.constant(f"{name}/size", np.array(shape))
        return self.operator("SLICE", [x, begin, size], self.tensor(name, shape))

    def unary(self, op: str, name: str, x: int, options: object = None) -> int:
        return self.operator(op, [x], self.tensor(name, self.shape(x)), options)


def classifier_file(network: Classifier) -> bytes:
    """The content of a ``.tflite`` file."""
    writer = Writer()
    image = x = writer.tensor("image", (1, 64, 64, 3))
    for i, layer in enumerate(network.body):
        x = writer.conv(f"conv{i}", x, layer)
    shape = (1, np.prod(writer.shape(x)))
    to = writer.constant("shape", np.array(shape))
    options = tfl.ReshapeOptionsT(newShape=list(shape))
    x = writer.operator("RESHAPE", [x, to], writer.tensor("features", shape), options)
    head = [writer.floats(f"head/{n}", p) for n, p in network.head.named_parameters()]
    options = tfl.FullyConnectedOptionsT()
    x = writer.operator("FULLY_CONNECTED", [x, *head], writer.tensor("head", (1, 10)), options)
    x = writer.unary("SOFTMAX", "digit", x, tfl.SoftmaxOptionsT(beta=1))
    return writer.finish(image, x, CLASSIFIER, licences())


def detector_file(network: Detector) -> bytes:
    """The content of a ``.tflite`` file."""
    writer = Writer()
    image = x = writer.tensor("image", (1, SIDE, SIDE, 3))
    grids = []
    for stride, stage, head in zip(STRIDES, network.stages, network.heads, strict=True):
        for i, layer in enumerate(stage):
            x = writer.conv(f"grid{stride}/conv{i}", x, layer)
        cells_ = writer.conv(f"grid{stride}/head", x, head)
        _, height, width, numbers = writer.shape(cells_)
        shape = (1, height * width, numbers)
        to = writer.constant(f"grid{stride}/shape", np.array(shape))
        rows = writer.tensor(f"grid{stride}/rows", shape)
        options = tfl.ReshapeOptionsT(newShape=list(shape))
        grids.append(writer.operator("RESHAPE", [cells_, to], rows, options))
    rows = writer.concatenated("rows", grids, 1)
    sizes = writer.unary("EXP", "sizes", writer.columns("log_sizes", rows, 2, 2), tfl.ExpOptionsT())
    places = writer.concatenated("relative", [writer.columns("centers", rows, 0, 2), sizes], 2)
    for op, name, values, options in zip(
        ("MUL", "ADD"), ("scaled", "places"), cells(), (tfl.MulOptionsT(), tfl.AddOptionsT()),
        strict=True,
    ):  # fmt: skip
        operand = writer.constant(f"{name}/by", values[np.newaxis])
        output = writer.tensor(name, writer.shape(places))
        places = writer.operator(op, [places, operand], output, options)
    logits = writer.columns("logits", rows, 4, len(LABELS))
    boxes = writer.concatenated("boxes", [places, writer.unary("LOGISTIC", "scores", logits)], 2)
    return writer.finish(image, boxes, DETECTOR, licences())


def licences() -> str:
    """The text for the file's metadata."""
    seen, _ = scans()
    photos = "".join(f"{photo}\n" for photo in seen.photos)
    return f"Trained on digits of {SOURCE}\non these photographs:\n{photos}"


def run(model: bytes, pictures: Sequence[Array]) -> Array:
    """Outputs of the file for uint8 pictures, by LiteRT on the CPU."""
    interpreter = Interpreter(model_content=model, num_threads=1)
    predict = interpreter.get_signature_runner()
    inputs = (picture[np.newaxis].astype(np.float32) / 255 for picture in pictures)
    return np.concatenate([next(iter(predict(image=image).values())) for image in inputs])


def disagreement(
    model: bytes, expected: Callable[[Tensor], Tensor], pictures: list[Array]
) -> float:
    """The largest difference between the file's and the network's outputs."""
    with torch.no_grad():
        known = expected(as_tensor(pictures)).numpy()
    return float(np.abs(run(model, pictures) - known).max())


def accuracy(model: bytes, pages: Sequence[Page]) -> float:
    """The share of pictures whose most probable digit is right."""
    found = run(model, [page.picture for page in pages]).argmax(1)
    return float((found == [page.digits[0] for page in pages]).mean())


def mean_average_precision(model: bytes, pages: Sequence[Page]) -> float:
    """mAP50: the mean over the digits of the area under the curve of precision over recall.

    A detection is right if its box overlaps that of a digit of its class, which no better detection
    has found, by an intersection over union of at least 0.5. Detections have scores from 0.01 on,
    after suppression of boxes that overlap a better one of their class by more than 0.7.
    """
    rows = run(model, [page.picture for page in pages])
    detector = YoloDetector("yolov8", (SIDE, SIDE), len(LABELS), threshold=0.01)
    found: list[list[tuple[float, bool]]] = [[] for _ in LABELS]
    for page, row in zip(pages, rows, strict=True):
        free = np.ones(len(page.digits), bool)
        for detection in read_detections([row[np.newaxis]], detector):
            overlaps = iou(SIDE * np.array(detection.box), page.boxes)
            overlaps = overlaps * free * (page.digits == detection.class_index)
            is_right = overlaps.max(initial=0) >= 0.5
            if is_right:
                free[overlaps.argmax()] = False
            found[detection.class_index].append((detection.score, is_right))
    counts = np.bincount(np.concatenate([page.digits for page in pages]), minlength=len(LABELS))
    return float(np.mean([average_precision(*pair) for pair in zip(found, counts, strict=True)]))


def average_precision(found: list[tuple[float, bool]], count: int) -> float:
    """The area under the curve, whose precision is the best one of at least that recall."""
    right = np.cumsum([is_right for _, is_right in sorted(found, key=lambda pair: -pair[0])])
    precision = right / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best * np.diff(right, prepend=0)).sum() / count)


def iou(box: Array, boxes: Array) -> Array:
    """Intersection over union of a box [4] with others [n, 4]."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = sides.clip(0).prod(1)
    return common / ((box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1) - common)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=["classifier", "detector"])
    parser.add_argument("--output", type=Path, help="file to write")
    parser.add_argument("--steps", type=int, help="optimizer steps")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    _, unseen = scans()
    if args.network == "classifier":
        network = train(Classifier(), classifier_batches(rng, 64), args.steps or 4000)
        model = classifier_file(network)
        test = [draw_one(np.random.default_rng([1, i]), unseen) for i in range(2000)]
        result = f"accuracy {accuracy(model, test):.1%} on 2000 pictures"
        expected: Callable[[Tensor], Tensor] = lambda x: network(x).softmax(1)  # noqa: E731
    else:
        network = train(Detector(), detector_batches(rng, 8), args.steps or 6000)
        model = detector_file(network)
        test = [letterboxed(np.random.default_rng([1, i]), unseen) for i in range(300)]
        result = f"mAP50 {mean_average_precision(model, test):.3f} on 300 pages"
        expected = network.decoded
    worst = disagreement(model, expected, [page.picture for page in test[:8]])
    if worst > MAX_DISAGREEMENT:
        raise SystemExit(f"the file differs from the network by {worst:.1e}: not written")
    output = args.output or MODELS / f"digit_{args.network}.tflite"
    output.write_bytes(model)
    parameters = sum(p.numel() for p in network.parameters())
    print(f"{output}: {len(model)} bytes, {parameters} parameters, off by {worst:.1e}, {result}")


if __name__ == "__main__":
    main()
