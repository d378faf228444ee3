"""The parts of an app with pictures: frames, networks that look at them, and a canvas."""

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

from gles_delegate.bench.comparison import litert_cpu, litert_errors
from gles_delegate.delegate import GpuDelegate
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform, Size, picture_transform
from gles_delegate.interpreter import Interpreter
from gles_delegate.live.layers import Layer
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import Metadata
from gles_delegate.model.reader import ModelFile, read_file
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.vision.classes import dequantize
from gles_delegate.vision.drawing import Drawing

if TYPE_CHECKING:
    import moderngl

    from gles_delegate.live.painter import Painter


class Timings:
    """Times of a frame's stages.

    Attributes:
        milliseconds: Each stage's mean over the last ten frames or so. The first time, which
            includes compilation, counts only until there is a second.
        is_exact: Wait for the GPU at the end of each stage, which takes a little time.
    """

    def __init__(self, finish: Callable[[], None]) -> None:
        self.milliseconds: dict[str, float] = {}
        self.is_exact = False
        self._finish = finish
        self._first: set[str] = set()

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Measure the ``with`` block."""
        start = time.perf_counter()
        yield
        if self.is_exact:
            self._finish()
        self.add(stage, 1000 * (time.perf_counter() - start))

    def add(self, stage: str, milliseconds: float) -> None:
        mean = self.milliseconds.get(stage)
        if mean is None or stage in self._first:
            self._first ^= {stage}
            mean = milliseconds
        self.milliseconds[stage] = mean + 0.1 * (milliseconds - mean)

    def __str__(self) -> str:
        return ", ".join(f"{stage} {ms:.1f}" for stage, ms in self.milliseconds.items())

    def clear(self) -> None:
        self.milliseconds.clear()
        self._first.clear()


class Findings:
    """Counts of detected objects by kind; ``str`` gives a line for each kind.

    Attributes:
        most: The most objects of a kind in one frame.
        frames: The number of frames with objects of a kind.
        seen: The number of all frames.
    """

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self.frames: dict[str, int] = {}
        self.seen = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Add a frame's counts by kind; kinds are singular nouns."""
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
    """A picture for networks.

    Attributes:
        pixels: Uint8 [height, width, 4], RGBA.
        texture: The same pixels on the GPU; None without one.
        seconds: Time since the app started.
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
    """The networks of an app, and where they run.

    Args:
        ctx: The context that draws, current at every call. None: there is no GPU, and networks run
            on LiteRT's CPU kernels.
        cache: A folder for compiled shaders and packed weights.

    Attributes:
        on_gpu: Whether networks run on the GPU or on LiteRT's CPU kernels; may be changed between
            frames.
        timings: Times of a frame's stages.
        findings: Counts of detected objects; see `Canvas.count`.
        progress: Called while a network is prepared, with its name, the number of compiled
            programs, and their total.
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
        """A model that is closed with the app.

        Args:
            path: A .tflite file.
            name: The name of its stage; default: the file's.
            mean: Its input gets (color - mean) / std, with colors of 0 to 255; default: from the
                metadata.
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
    """A model for frames that runs where its app chooses: on the GPU or on LiteRT's CPU kernels.

    Attributes:
        metadata: The model's metadata.
        pictures: Makes pictures of outputs, by position: textures on the GPU, otherwise
            arrays [height, width, 4] of 0 to 1. To be set before the first frame.
    """

    def __init__(
        self, app: App, path: Path, name: str, mean: float | None, std: float | None
    ) -> None:
        self._app, self._file, self._name = app, read_file(path), name
        self._mean, self._std = mean, std
        self.pictures: dict[int, ImageOutput] = {}
        self._resized: Size | None = None
        self._sides: dict[bool, _Side] = {}
        self.metadata: Metadata = read_metadata(self._file.graph())
        self._side()

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """See `Interpreter.get_input_details`."""
        return self._side().inputs

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """See `Interpreter.get_output_details`."""
        return self._side().outputs

    @cached_property
    def transform(self) -> ImageTransform:
        """Preprocessing of a whole frame; see `ImageTransform.for_input`. May be replaced."""
        details, metadata = self.inputs[self._picture], self.metadata.inputs[self._picture]
        shape, dtype = details["shape"].tolist(), np.dtype(details["dtype"]).name
        return picture_transform(shape, dtype, metadata, self._mean, self._std)

    @property
    def labels(self) -> list[str]:
        """The class names in the model's metadata."""
        return next((list(output.labels) for output in self.metadata.outputs if output.labels), [])

    @property
    def size(self) -> Size:
        """Height and width of the input."""
        _, height, width, *_ = self.inputs[self._picture]["shape"].tolist()
        return height, width

    def resize(self, size: Size) -> None:
        """Resize the input to this height and width; changes `inputs` and `outputs`."""
        if size != self.size:
            self._resized = size
            self._side()

    def __call__(
        self,
        frame: Frame,
        transform: ImageTransform | None = None,
        feeds: Mapping[int, Array] | None = None,
    ) -> list[Any]:
        """Run the network on a frame.

        Args:
            frame: The frame.
            transform: The frame's preprocessing; default: `transform`.
            feeds: Arrays for the other inputs, by position.

        Returns:
            The outputs: pictures, and dequantized arrays.
        """
        with self._app.timings.measure(self._name):
            self._side().set_frame(self._picture, frame, transform or self.transform)
            return self._side().run(feeds or {})

    def run(self, feeds: Mapping[int, Array]) -> list[Any]:
        """The outputs for arrays, by the inputs' positions; see `__call__`."""
        with self._app.timings.measure(self._name):
            return self._side().run(feeds)

    def layer(self, picture: Any, transform: ImageTransform, frame: Frame, **style: Any) -> Layer:
        """An output picture as a layer on the region of the frame that the network saw.

        Args:
            picture: A result of `__call__`.
            transform: The argument of `__call__`.
            frame: Likewise.
            style: Other attributes of the layer.
        """
        height, width = picture.shape[:2] if isinstance(picture, np.ndarray) else picture.size[::-1]
        matrix = transform.affine(frame.size, (height, width))
        return Layer(picture, matrix=matrix, **style)

    def close(self) -> None:
        for side in self._sides.values():
            side.close()

    def _side(self) -> _Side:
        """The model where it runs now: created at first use, and resized like the other one."""
        app = self._app
        if app.on_gpu not in self._sides:
            self._sides[app.on_gpu] = _Side(app, self._file, self._name, self.pictures)
        side, size = self._sides[app.on_gpu], self._resized
        if size and side.inputs[self._picture]["shape"][1:3].tolist() != [*size]:
            side.resize(self._picture, size)
        return side

    @staticmethod
    def read(picture: Any) -> Array:
        """An output picture, a texture or an array, as uint8 [height, width, 4]."""
        if not isinstance(picture, np.ndarray):
            from gles_delegate.live.painter import read_texture

            return read_texture(picture)
        pixels: Array = (picture.clip(0, 1) * 255 + 0.5).astype(np.uint8)
        return pixels

    @cached_property
    def _picture(self) -> int:
        """The position of the input that is a picture."""
        for position, details in enumerate(self.inputs):
            shape = details["shape"].tolist()
            if len(shape) == 4 and shape[0] == 1 and shape[3] in (1, 3, 4) and shape[1] > 1:
                return position
        shapes = [d["shape"].tolist() for d in self.inputs]
        raise ValueError(
            f"expected a network with an input [1, height, width, 1, 3 or 4], found {shapes} in "
            f"{self._name}"
        )


class _Side:
    """A model on the GPU, where it shares textures with the app, or on LiteRT's CPU kernels."""

    def __init__(
        self, app: App, file: ModelFile, name: str, pictures: Mapping[int, ImageOutput]
    ) -> None:
        self._ctx, self._pictures = app.ctx, pictures
        self._textures: dict[int, moderngl.Texture] = {}
        self._delegate: GpuDelegate | None = None
        if app.on_gpu:
            self._delegate = GpuDelegate(
                GpuDelegateOptions(serialization_dir=app.cache),
                context=app.ctx,
                progress=lambda compiled, total: app.progress(name, compiled, total),
            )
            delegates = [self._delegate]
            self._interpreter: Any = Interpreter(**file.arguments, experimental_delegates=delegates)
        else:
            self._interpreter = litert_cpu(file, threads=os.cpu_count())
            with litert_errors(file):
                self._interpreter.allocate_tensors()
        self._describe()

    def _describe(self) -> None:
        self.inputs: list[dict[str, Any]] = self._interpreter.get_input_details()
        self.outputs: list[dict[str, Any]] = self._interpreter.get_output_details()

    def resize(self, picture: int, size: Size) -> None:
        if self._delegate is not None:
            for position, texture in self._textures.items():
                self._delegate.unbind(self.outputs[position]["index"])
                texture.release()
            self._textures.clear()
        details = self.inputs[picture]
        batch, _, _, *depth = details["shape"].tolist()
        self._interpreter.resize_tensor_input(details["index"], [batch, *size, *depth])
        self._interpreter.allocate_tensors()
        self._describe()

    def set_frame(self, picture: int, frame: Frame, transform: ImageTransform) -> None:
        details = self.inputs[picture]
        index, pair = details["index"], details["quantization"]
        if self._delegate is not None:
            self._delegate.bind_texture_to_tensor(index, frame.texture, transform=transform)
        else:
            size, dtype = tuple(details["shape"][1:3].tolist()), np.dtype(details["dtype"]).name
            pixels = transform.apply(frame.pixels, size, dtype=dtype, quantization=pair)
            self._interpreter.set_tensor(index, pixels)

    def run(self, feeds: Mapping[int, Array]) -> list[Any]:
        if self._delegate is not None:
            for position in self._pictures.keys() - self._textures.keys():
                details, picture = self.outputs[position], self._pictures[position]
                match details["shape"].tolist():
                    case [_, height, width, _]:
                        assert self._ctx is not None
                        texture = self._textures[position] = self._ctx.texture((width, height), 4)
                        index = details["index"]
                        self._delegate.bind_texture_to_tensor(index, texture, transform=picture)
            self._interpreter.allocate_tensors()
        for position, array in feeds.items():
            self._interpreter.set_tensor(self.inputs[position]["index"], array)
        self._interpreter.invoke()
        return [self._textures.get(i) or self._result(i) for i in range(len(self.outputs))]

    def _result(self, position: int) -> Any:
        """A dequantized output, or its picture."""
        details, picture = self.outputs[position], self._pictures.get(position)
        result = dequantize(self._interpreter.get_tensor(details["index"]), details["quantization"])
        if picture is None:
            return result
        return picture.apply(result if result.ndim == 4 else result[..., np.newaxis])

    def close(self) -> None:
        if self._delegate is not None:
            self._delegate.close()


class Canvas:
    """A frame with layers, and a drawing on top.

    Attributes:
        drawing: Shapes and text.
        counts: Counts of detected objects by kind.
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
        """Put a layer over the frame and earlier layers."""
        if layer.matrix is not None and self._scale != (1, 1):
            layer = replace(layer, matrix=layer.matrix * np.array(self._scale)[:, np.newaxis])
        if self._painter is not None:
            self._painter.layer(layer)
        else:
            self._pixels = layer.over(self._pixels)

    def count(self, kind: str, number: int) -> None:
        """Set the number of detected objects of a kind, such as "hand"; 0 counts too."""
        self.counts[kind] = number

    def finish(self) -> None:
        """Draw `drawing`."""
        if self._painter is not None:
            self._painter.draw(self.drawing)
        else:
            picture = self.drawing.on_picture(Image.fromarray(self._pixels))
            self._pixels = np.asarray(picture)

    def pixels(self) -> Array:
        """Uint8 [height, width, 3]."""
        return self._painter.pixels() if self._painter is not None else self._pixels
