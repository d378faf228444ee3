"""What an app with pictures is made of: frames, networks that look at them, and what is drawn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from gles_delegate.delegate import GpuDelegate
from gles_delegate.errors import LiteRtError
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform, Size, picture_transform
from gles_delegate.interpreter import Interpreter
from gles_delegate.live.layers import Layer
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import Metadata, read_metadata
from gles_delegate.model.reader import load_model
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.vision.classes import real_numbers
from gles_delegate.vision.drawing import Drawing

if TYPE_CHECKING:
    import moderngl

    from gles_delegate.live.painter import Painter

LATEST = 0.1
"""Share of the latest time in the mean that is shown."""


class Timings:
    """How long the stages of a frame take.

    Attributes:
        milliseconds: The mean of each, of the last ten frames or so. The first time, in which
            networks are compiled, counts until there is another.
        is_exact: Wait for the GPU at the end of each stage, which costs a little.
    """

    def __init__(self, finish: Callable[[], None]) -> None:
        self.milliseconds: dict[str, float] = {}
        self.is_exact = False
        self._finish = finish
        self._first: set[str] = set()

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Measure what is done inside."""
        start = time.perf_counter()
        yield
        if self.is_exact:
            self._finish()
        self.add(stage, 1000 * (time.perf_counter() - start))

    def add(self, stage: str, milliseconds: float) -> None:
        known = self.milliseconds.get(stage)
        if known is None or stage in self._first:
            self._first ^= {stage}
            known = milliseconds
        self.milliseconds[stage] = known + LATEST * (milliseconds - known)

    def __str__(self) -> str:
        return ", ".join(f"{stage} {ms:.1f}" for stage, ms in self.milliseconds.items())

    def clear(self) -> None:
        """Start anew."""
        self.milliseconds.clear()
        self._first.clear()


class Findings:
    """How many things of each kind were found in frames; its text is one line for each kind.

    Attributes:
        most: The most of a kind in one frame.
        frames: In how many frames any were found.
        seen: How many frames were looked at.
    """

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self.frames: dict[str, int] = {}
        self.seen = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Take what was found in a frame, as many as there are by the name of one."""
        self.seen += 1
        for kind, count in counts.items():
            self.most[kind] = max(self.most.get(kind, 0), count)
            self.frames[kind] = self.frames.get(kind, 0) + (count > 0)

    def __str__(self) -> str:
        lines = []
        for kind, most in self.most.items():
            plural = kind + ("es" if kind.endswith("s") else "s")
            line = f"{most} {kind if most == 1 else plural}"
            if most and self.seen > 1:
                line += f" at most, in {self.frames[kind]} of {self.seen} frames"
            lines.append(line)
        return "\n".join(lines)


@dataclass(frozen=True)
class Frame:
    """A picture that networks look at.

    Attributes:
        pixels: Uint8 [height, width, 4], RGBA.
        texture: The same on the GPU; None without one.
        seconds: Since the app has started.
    """

    pixels: Array
    texture: moderngl.Texture | None
    seconds: float

    @property
    def size(self) -> Size:
        """Height and width."""
        height, width = self.pixels.shape[:2]
        return height, width


class App:
    """Where networks run, and how long they take.

    Args:
        ctx: The context that draws, current at every call. None: there is no GPU, and networks run
            on LiteRT's CPU.
        cache: A folder for compiled shaders and packed weights.

    Attributes:
        on_gpu: Whether networks run on the GPU, or on LiteRT's CPU kernels; may be changed between
            frames.
        timings: Of the stages of a frame.
        findings: What was found in frames, as `Canvas.count` has it.
        progress: Called while a network is prepared: its name, the number of compiled programs,
            and of all.
    """

    def __init__(self, ctx: moderngl.Context | None, *, cache: Path | None = None) -> None:
        self.ctx = ctx
        self.on_gpu = ctx is not None
        self.cache = cache
        self.timings = Timings(ctx.finish if ctx is not None else lambda: None)
        self.findings = Findings()
        self.progress: Callable[[str, int, int], None] = lambda name, compiled, total: None
        self._networks: list[Network] = []

    def network(
        self, path: Path, name: str = "", *, mean: float | None = None, std: float | None = None
    ) -> Network:
        """A model of the app; closed with it.

        Args:
            path: A .tflite file.
            name: Of its stage; default: that of the file.
            mean: Its input gets (colour - mean) / std, with colours of 0 to 255; default: what the
                metadata say.
            std: See `mean`.
        """
        network = Network(self, path, name or path.stem, mean, std)
        self._networks.append(network)
        return network

    def close(self) -> None:
        """Close all networks; the context must be current."""
        for network in self._networks:
            network.close()


class Network:
    """A model that looks at frames, on the GPU or on LiteRT's CPU, as its app says.

    Attributes:
        inputs: As in `Interpreter.get_input_details`.
        outputs: As in `Interpreter.get_output_details`.
        metadata: What the file says about itself.
        pictures: Outputs, by their places, that are to be pictures: textures where it runs on the
            GPU, otherwise arrays [height, width, 4] of 0 to 1. Filled before the first frame.
    """

    def __init__(
        self, app: App, path: Path, name: str, mean: float | None, std: float | None
    ) -> None:
        self._app, self._path, self._name = app, path, name
        self._mean, self._std = mean, std
        self.pictures: dict[int, ImageOutput] = {}
        self._resized: Size | None = None
        self._gpu: _OnGpu | None = None
        self._cpu: _OnCpu | None = None
        self.metadata: Metadata = read_metadata(load_model(path))
        self.inputs, self.outputs = self._now.inputs, self._now.outputs

    @cached_property
    def transform(self) -> ImageTransform:
        """How a whole frame becomes the input, as `ImageTransform.for_input`. May be replaced."""
        details, known = self.inputs[self._picture], self.metadata.inputs[self._picture]
        shape, dtype = details["shape"].tolist(), np.dtype(details["dtype"]).name
        return picture_transform(shape, dtype, known, self._mean, self._std)

    @property
    def labels(self) -> list[str]:
        """The names of classes that are packed into the model."""
        return next((list(known.labels) for known in self.metadata.outputs if known.labels), [])

    @property
    def size(self) -> Size:
        """Height and width of the input."""
        _, height, width, *_ = self.inputs[self._picture]["shape"].tolist()
        return height, width

    def resize(self, size: Size) -> None:
        """Have the input take pictures of this height and width; changes `inputs` and `outputs`."""
        if size == self.size:
            return
        self._resized = size
        self.inputs, self.outputs = self._now.inputs, self._now.outputs

    def __call__(
        self,
        frame: Frame,
        transform: ImageTransform | None = None,
        feeds: Mapping[int, Array] | None = None,
    ) -> list[Any]:
        """Look at a frame.

        Args:
            frame: The frame.
            transform: What it sees of it; default: `transform`.
            feeds: Arrays for the other inputs, by their places.

        Returns:
            The outputs: pictures, and arrays, quantized ones as the numbers that they stand for.
        """
        with self._app.timings.measure(self._name):
            place = self._picture
            self._now.look(place, frame, transform or self.transform)
            return self._now.run(feeds or {})

    def run(self, feeds: Mapping[int, Array]) -> list[Any]:
        """The outputs for arrays, by the places of the inputs; see `__call__`."""
        with self._app.timings.measure(self._name):
            return self._now.run(feeds)

    def layer(self, picture: Any, transform: ImageTransform, frame: Frame, **style: Any) -> Layer:
        """An output picture as a layer that lies where the network has looked.

        Args:
            picture: As `__call__` has returned it.
            transform: As it was passed there.
            frame: Likewise.
            style: Other attributes of the layer.
        """
        height, width = picture.shape[:2] if isinstance(picture, np.ndarray) else picture.size[::-1]
        matrix = transform.affine(frame.size, (height, width))
        return Layer(picture, matrix=matrix, **style)

    def close(self) -> None:
        if self._gpu is not None:
            self._gpu.close()

    @property
    def _now(self) -> _OnGpu | _OnCpu:
        """Where it runs, made when it first does, and as large as on the other side."""
        found: _OnGpu | _OnCpu
        if self._app.on_gpu:
            self._gpu = self._gpu or _OnGpu(self._app, self._path, self._name, self.pictures)
            found = self._gpu
        else:
            self._cpu = self._cpu or _OnCpu(self._path, self.pictures)
            found = self._cpu
        size = self._resized
        if size and found.inputs[self._picture]["shape"][1:3].tolist() != [*size]:
            found.resize(self._picture, size)
        return found

    @staticmethod
    def read(picture: Any) -> Array:
        """An output picture as uint8 [height, width, 4], wherever it is."""
        if not isinstance(picture, np.ndarray):
            from gles_delegate.live.painter import read_texture

            return read_texture(picture)
        found: Array = (picture.clip(0, 1) * 255 + 0.5).astype(np.uint8)
        return found

    @cached_property
    def _picture(self) -> int:
        for place, details in enumerate(self.inputs):
            shape = details["shape"].tolist()
            if len(shape) == 4 and shape[0] == 1 and shape[3] in (1, 3, 4) and shape[1] > 1:
                return place
        shapes = [d["shape"].tolist() for d in self.inputs]
        raise ValueError(
            f"expected a network with an input [1, height, width, 1, 3 or 4], found {shapes} in "
            f"{self._path}"
        )


class _OnGpu:
    """A model that reads textures of the app's context."""

    def __init__(
        self, app: App, path: Path, name: str, pictures: Mapping[int, ImageOutput]
    ) -> None:
        self._ctx, self._outputs = app.ctx, pictures
        options = GpuDelegateOptions(serialization_dir=app.cache)
        self._delegate = GpuDelegate(
            options,
            context=app.ctx,
            progress=lambda compiled, total: app.progress(name, compiled, total),
        )
        self._interpreter = Interpreter(path, experimental_delegates=[self._delegate])
        self.inputs = self._interpreter.get_input_details()
        self.outputs = self._interpreter.get_output_details()
        self._pictures: dict[int, moderngl.Texture] = {}

    def resize(self, picture: int, size: Size) -> None:
        self._interpreter.resize_tensor_input(*_resized(self.inputs[picture], size))
        for place, texture in self._pictures.items():
            self._delegate.unbind(self.outputs[place]["index"])
            texture.release()
        self._pictures.clear()
        self._interpreter.allocate_tensors()
        self.inputs = self._interpreter.get_input_details()
        self.outputs = self._interpreter.get_output_details()

    def look(self, picture: int, frame: Frame, transform: ImageTransform) -> None:
        index = self.inputs[picture]["index"]
        self._delegate.bind_texture_to_tensor(index, frame.texture, transform=transform)

    def run(self, feeds: Mapping[int, Array]) -> list[Any]:
        for place in self._outputs.keys() - self._pictures.keys():
            if len(self.outputs[place]["shape"]) == 4:
                self._make_picture(place)
        self._interpreter.allocate_tensors()
        for place, array in feeds.items():
            self._interpreter.set_tensor(self.inputs[place]["index"], array)
        self._interpreter.invoke()
        return [
            self._pictures.get(place)
            or _found(self._interpreter.get_tensor(d["index"]), d, self._outputs.get(place))
            for place, d in enumerate(self.outputs)
        ]

    def _make_picture(self, place: int) -> None:
        assert self._ctx is not None
        _, height, width, *_ = self.outputs[place]["shape"].tolist()
        texture = self._pictures[place] = self._ctx.texture((width, height), 4)
        index, output = self.outputs[place]["index"], self._outputs[place]
        self._delegate.bind_texture_to_tensor(index, texture, transform=output)

    def close(self) -> None:
        self._delegate.close()


class _OnCpu:
    """A model in LiteRT's interpreter, without a delegate of ours."""

    def __init__(self, path: Path, pictures: Mapping[int, ImageOutput]) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter as LiteRt
        except ImportError as error:
            raise LiteRtError(
                "networks run on the CPU by LiteRT, which is not installed: pip install "
                "ai-edge-litert"
            ) from error
        self._pictures = pictures
        try:
            self._interpreter = LiteRt(str(path), num_threads=os.cpu_count())
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise LiteRtError(f"LiteRT's CPU kernels do not run {path}: {error}") from error
        self.inputs = self._interpreter.get_input_details()
        self.outputs = self._interpreter.get_output_details()

    def resize(self, picture: int, size: Size) -> None:
        self._interpreter.resize_tensor_input(*_resized(self.inputs[picture], size))
        self._interpreter.allocate_tensors()
        self.inputs = self._interpreter.get_input_details()
        self.outputs = self._interpreter.get_output_details()

    def look(self, picture: int, frame: Frame, transform: ImageTransform) -> None:
        details = self.inputs[picture]
        shape, dtype = tuple(details["shape"].tolist()), np.dtype(details["dtype"]).name
        pair = details["quantization"]
        seen = transform.apply(frame.pixels, shape[1:3], dtype=dtype, quantization=pair)
        self._interpreter.set_tensor(details["index"], seen)

    def run(self, feeds: Mapping[int, Array]) -> list[Any]:
        for place, array in feeds.items():
            self._interpreter.set_tensor(self.inputs[place]["index"], array)
        self._interpreter.invoke()
        return [
            _found(self._interpreter.get_tensor(d["index"]), d, self._pictures.get(place))
            for place, d in enumerate(self.outputs)
        ]


def _resized(details: Mapping[str, Any], size: Size) -> tuple[int, list[int]]:
    """The index of an input, and its shape for pictures of this height and width."""
    batch, _, _, *depth = details["shape"].tolist()
    return details["index"], [batch, *size, *depth]


def _found(array: Array, details: Mapping[str, Any], output: ImageOutput | None) -> Array:
    """The numbers that an output stands for, or the picture of them."""
    real = real_numbers(array, details["quantization"])
    return real if output is None else output.apply(real if real.ndim == 4 else real[..., None])


class Canvas:
    """A frame, what is laid over it, and a drawing on top.

    Attributes:
        drawing: Shapes and text; see there.
        counts: How many things were found, by the name of one.
    """

    def __init__(self, frame: Frame, painter: Painter | None, size: Size) -> None:
        self.drawing = Drawing(size)
        self.counts: dict[str, int] = {}
        self._painter = painter
        self._scale = (size[1] / frame.size[1], size[0] / frame.size[0])
        if painter is not None and frame.texture is not None:
            painter.begin(frame.texture)
        elif size == frame.size:
            self._pixels = frame.pixels[..., :3]
        else:
            picture = Image.fromarray(frame.pixels).convert("RGB")
            self._pixels = np.asarray(picture.resize(size[::-1]))

    def layer(self, layer: Layer) -> None:
        """Lay it over the frame and what lies there."""
        if layer.matrix is not None and self._scale != (1, 1):
            layer = replace(layer, matrix=layer.matrix * np.array(self._scale)[:, np.newaxis])
        if self._painter is not None:
            self._painter.layer(layer)
        else:
            self._pixels = layer.over(self._pixels)

    def count(self, kind: str, number: int) -> None:
        """Note how many things of a kind, such as "hand", are in the frame; 0 counts too."""
        self.counts[kind] = number

    def finish(self) -> None:
        """Draw the drawing."""
        if self._painter is not None:
            self._painter.draw(self.drawing)
        else:
            picture = self.drawing.on_picture(Image.fromarray(self._pixels))
            self._pixels = np.asarray(picture)

    def pixels(self) -> Array:
        """Uint8 [height, width, 3]."""
        return self._painter.pixels() if self._painter is not None else self._pixels
