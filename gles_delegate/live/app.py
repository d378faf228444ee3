"""The parts of an app with pictures: frames, networks that look at them, and a canvas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from PIL import Image

from gles_delegate import tasks
from gles_delegate.closing import in_any_case
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import Texture
from gles_delegate.gl.upload import PixelTexture
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform, Size, picture_transform
from gles_delegate.live.frames import GpuFrame
from gles_delegate.live.layers import Layer
from gles_delegate.live.painter import Painter, read_texture
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import Metadata
from gles_delegate.model.reader import read_file
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.tasks.network import PictureNetwork
from gles_delegate.tasks.options import Delegate
from gles_delegate.tasks.place import Place
from gles_delegate.tasks.task import VisionTask
from gles_delegate.vision.drawing import Drawing

if TYPE_CHECKING:
    import moderngl

R = TypeVar("R")


class Timings:
    """Times of a frame's stages.

    Attributes:
        milliseconds: Each stage's mean over the last ten frames or so. The first time, which
            includes compilation, counts only until there is a second one.
        is_exact: Wait for the GPU at the end of each stage, which takes a little time.

    Examples:
        >>> timings = live.Timings(finish=lambda: None)
        >>> with timings.measure("sort"):
        ...     numbers = sorted(range(1000))
        >>> list(timings.milliseconds)
        ['sort']
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

    Examples:
        >>> findings = live.Findings()
        >>> findings.add({"face": 2})
        >>> findings.add({"face": 0})
        >>> findings.most["face"], findings.frames["face"], findings.seen
        (2, 1, 2)
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


class Frame:
    """A picture for networks.

    Args:
        pixels: Uint8 [height, width, 4], RGBA. None: `texture` has them.
        texture: The same pixels on the GPU, or a frame that a source lends; None without a GPU.
        seconds: The presentation time since the first frame of a file or a pipeline; time since the
            app started for cameras.

    Attributes:
        texture: See the argument.
        seconds: See the argument.

    Examples:
        >>> frame = live.Frame(np.zeros((240, 320, 4), np.uint8), None, seconds=0.5)
        >>> frame.size
        (240, 320)
    """

    def __init__(
        self, pixels: Array | None, texture: Texture | GpuFrame | None, seconds: float
    ) -> None:
        self._pixels, self.texture, self.seconds = pixels, texture, seconds

    @property
    def size(self) -> Size:
        """Height and width."""
        if isinstance(self.texture, GpuFrame):
            return self.texture.size
        height, width = self.pixels.shape[:2]
        return height, width

    @property
    def pixels(self) -> Array:
        """Uint8 [height, width, 4], RGBA; reads a lent frame back."""
        if isinstance(self.texture, GpuFrame):
            return self.texture.pixels
        assert self._pixels is not None
        return self._pixels

    def image(self, on_gpu: bool) -> tasks.Image:
        """The frame for a task on the GPU or on the CPU."""
        if not on_gpu:
            return tasks.Image(tasks.ImageFormat.SRGBA, self.pixels)
        if isinstance(self.texture, GpuFrame):
            return self.texture.image()
        return tasks.Image.create_from_texture(self.texture)


class App:
    """The networks of an app, and where they run.

    Args:
        ctx: The context that draws, current at every call: a `moderngl.Context`, or "current" for
            any other. None: there is no GPU, and networks run on LiteRT's CPU kernels.
        cache: A folder for compiled shaders and packed weights.

    Attributes:
        on_gpu: Whether networks run on the GPU or on LiteRT's CPU kernels; may be changed between
            frames.
        timings: Times of a frame's stages.
        findings: Counts of detected objects; see `Canvas.count`.
        progress: Called while a network is prepared, with its name, the number of compiled
            programs, and their total.

    Examples:
        >>> def make(app):
        ...     network = app.network(Path("ball_segmenter.tflite"))
        ...     return lambda frame, canvas: network(frame)
        >>> options = live.ShowOptions(headless=True, frames=2)
        >>> app = live.show(make, live.Picture(Path("face.jpg")), options)
        >>> app.on_gpu, app.findings.seen
        (True, 2)
    """

    def __init__(
        self, ctx: moderngl.Context | Literal["current"] | None, *, cache: Path | None = None
    ) -> None:
        self.ctx = ctx
        self.on_gpu = ctx is not None
        self.cache = cache
        self.timings = Timings(lambda: None if ctx is None else current_functions().glFinish())
        self.findings = Findings()
        self.progress: Callable[[str, int, int], None] = lambda name, compiled, total: None
        self._networks: list[Network | FrameTask[Any]] = []
        self._places: dict[bool, Place] = {}

    def place(self) -> Place:
        """Where networks run now."""
        if self.on_gpu not in self._places:
            delegate = Delegate.GPU if self.on_gpu else Delegate.CPU
            self._places[self.on_gpu] = Place(self.ctx if self.on_gpu else None, delegate)
        return self._places[self.on_gpu]

    def base_options(self, model: Any = None) -> tasks.BaseOptions:
        """Options of a task that runs where networks run now, with antialiasing.

        Args:
            model: See `BaseOptions.model_asset_path`.
        """
        return tasks.BaseOptions(
            model,
            delegate=Delegate.GPU if self.on_gpu else Delegate.CPU,
            context=self.ctx if self.on_gpu else None,
            gpu_options=GpuDelegateOptions(serialization_dir=self.cache),
            antialias=True,
            progress=lambda *progress: self.progress(*progress),
        )

    def task(
        self, make: Callable[[tasks.BaseOptions], VisionTask[R]], model: Any, name: str
    ) -> FrameTask[R]:
        """A task on frames that is closed with the app.

        Args:
            make: Makes the task, in the video mode, from `base_options`; called once for the GPU
                and once for the CPU.
            model: See `BaseOptions.model_asset_path`.
            name: The name of its stage in `timings`.
        """
        task = FrameTask(self, make, model, name)
        self._networks.append(task)
        return task

    def network(
        self, path: Path, name: str = "", *, mean: float | None = None, std: float | None = None
    ) -> Network:
        """A model that is closed with the app.

        Args:
            path: A .tflite file.
            name: The name of its stage in `timings`; default: the file's.
            mean: Its input gets (color - mean) / std, with colors of 0 to 255; default: the
                metadata's.
            std: See `mean`.
        """
        network = Network(self, path, name or path.stem, mean, std)
        self._networks.append(network)
        return network

    def close(self) -> None:
        """Close all networks; the context must be current."""
        places = self._places.values()
        in_any_case(each.close for each in (*self._networks, *places))


class FrameTask(Generic[R]):
    """A task that runs where its app chooses: on the GPU or on LiteRT's CPU kernels."""

    def __init__(
        self, app: App, make: Callable[[tasks.BaseOptions], VisionTask[R]], model: Any, name: str
    ) -> None:
        self._app, self._make, self._model, self._name = app, make, model, name
        self._sides: dict[bool, VisionTask[R]] = {}
        self._time = -1
        self._side()

    def __call__(self, frame: Frame) -> R:
        """The result for a frame."""
        with self._app.timings.measure(self._name):
            self._time = max(round(1000 * frame.seconds), self._time + 1)
            return self._side().process_frame(frame.image(self._app.on_gpu), self._time)

    def close(self) -> None:
        """Close the task on both sides."""
        in_any_case(side.close for side in self._sides.values())

    def _side(self) -> VisionTask[R]:
        app = self._app
        if app.on_gpu not in self._sides:
            self._sides[app.on_gpu] = self._make(app.base_options(self._model))
        return self._sides[app.on_gpu]


class Network:
    """A model for frames that runs where its app chooses: on the GPU or on LiteRT's CPU kernels.

    Attributes:
        metadata: The model's metadata.
        pictures: Makes pictures of outputs, by position: textures on the GPU, otherwise
            arrays [height, width, 4] of 0 to 1. Set it before the first frame.

    Examples:
        >>> def make(app):
        ...     network = app.network(Path("ball_segmenter.tflite"))
        ...     def see(frame, canvas):
        ...         (scores,) = network(frame)
        ...         canvas.drawing.text((20, 20), f"{scores.mean():.2f}")
        ...     return see
        >>> options = live.ShowOptions(headless=True, frames=1)
        >>> app = live.show(make, live.Picture(Path("face.jpg")), options)
    """

    def __init__(
        self, app: App, path: Path, name: str, mean: float | None, std: float | None
    ) -> None:
        self._app, self._file, self._name = app, read_file(path), name
        self._mean, self._std = mean, std
        self.pictures: dict[int, ImageOutput] = {}
        self._resized: Size | None = None
        self._sides: dict[bool, PictureNetwork] = {}
        self._textures: dict[int, PixelTexture] = {}
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
        side = self._side()
        details, metadata = side.inputs[side.picture], self.metadata.inputs[side.picture]
        shape, dtype = details["shape"].tolist(), np.dtype(details["dtype"]).name
        return picture_transform(shape, dtype, metadata, self._mean, self._std)

    @property
    def labels(self) -> list[str]:
        """The class names in the model's metadata."""
        return next((list(output.labels) for output in self.metadata.outputs if output.labels), [])

    @property
    def size(self) -> Size:
        """Height and width of the input."""
        return self._side().size

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
            self._side().set_picture(frame.image(self._app.on_gpu), transform or self.transform)
            return self._run(feeds or {})

    def run(self, feeds: Mapping[int, Array]) -> list[Any]:
        """The outputs for arrays, by the inputs' positions; see `__call__`."""
        with self._app.timings.measure(self._name):
            return self._run(feeds)

    def layer(self, picture: Any, transform: ImageTransform, frame: Frame, **style: Any) -> Layer:
        """An output picture as a layer on the region of the frame that the network saw.

        Args:
            picture: A result of `__call__`.
            transform: The `transform` of that call.
            frame: The frame of that call.
            style: Other attributes of the layer.
        """
        height, width = picture.shape[:2] if isinstance(picture, np.ndarray) else picture.size[::-1]
        matrix = transform.affine(frame.size, (height, width))
        return Layer(picture, matrix=matrix, **style)

    def close(self) -> None:
        for side in self._sides.values():
            side.close()

    def _side(self) -> PictureNetwork:
        """The model where it runs now: created at first use, and resized like the other one."""
        app, size = self._app, self._resized
        if app.on_gpu not in self._sides:
            self._sides[app.on_gpu] = PictureNetwork(
                self._file, self._name, app.place(), app.base_options()
            )
        side = self._sides[app.on_gpu]
        if size and side.size != size:
            for texture in self._textures.values():
                texture.release()
            self._textures.clear()
            side.resize(size)
        return side

    def _run(self, arrays: Mapping[int, Array]) -> list[Any]:
        """Pictures of outputs that have them, and dequantized arrays."""
        side = self._side()
        if self._app.on_gpu:
            for position in self.pictures.keys() - self._textures.keys():
                match side.shapes[position]:
                    case [_, height, width, _]:
                        texture = self._app.place().new_texture((height, width, 4))
                        self._textures[position] = texture
                        side.write_to(position, texture, self.pictures[position])
        results: list[Any] = side.run(arrays, read=False)
        for position, picture in self.pictures.items():
            if self._app.on_gpu and position in self._textures:
                results[position] = self._textures[position]
            else:
                array = results[position]
                array = array if array.ndim == 4 else array[..., np.newaxis]
                results[position] = picture.apply(array)
        return results

    @staticmethod
    def read(picture: Any) -> Array:
        """An output picture, a texture or an array, as uint8 [height, width, 4]."""
        if not isinstance(picture, np.ndarray):
            return read_texture(picture)
        pixels: Array = (picture.clip(0, 1) * 255 + 0.5).astype(np.uint8)
        return pixels


class Canvas:
    """A frame with layers, and a drawing on top.

    Networks may see a frame on a different thread than the one that draws: `layer` only collects,
    and `finish` draws.

    Args:
        frame: The frame.
        painter: Draws on the GPU; None: on the CPU.
        size: Height and width of the picture.
        keep: Copies a texture that its network may overwrite before it is drawn.

    Attributes:
        drawing: Shapes and text.
        counts: Counts of detected objects by kind.

    Examples:
        >>> def see(frame, canvas):
        ...     canvas.drawing.text((20, 20), f"{frame.seconds:.1f} s")
        ...     canvas.count("clock", 1)
        >>> options = live.ShowOptions(headless=True, frames=1)
        >>> app = live.show(lambda app: see, live.Picture(Path("face.jpg")), options)
        >>> print(app.findings)
        1 clock
    """

    def __init__(
        self,
        frame: Frame,
        painter: Painter | None,
        size: Size,
        keep: Callable[[Texture], Texture] | None = None,
    ) -> None:
        self.drawing = Drawing(size)
        self.counts: dict[str, int] = {}
        self._frame, self._painter, self._size, self._keep = frame, painter, size, keep
        self._scale = (size[1] / frame.size[1], size[0] / frame.size[0])
        self._layers: list[Layer] = []
        self._pixels: Array | None = None

    def layer(self, layer: Layer) -> None:
        """Put a layer over the frame and earlier layers."""
        if layer.matrix is not None and self._scale != (1, 1):
            layer = replace(layer, matrix=layer.matrix * np.array(self._scale)[:, np.newaxis])
        if self._keep is not None and not isinstance(layer.picture, np.ndarray):
            layer = replace(layer, picture=self._keep(layer.picture))
        self._layers.append(layer)

    def count(self, kind: str, number: int) -> None:
        """Set the number of detected objects of a kind, such as "hand"; 0 counts too."""
        self.counts[kind] = number

    def finish(self, frame: Frame | None = None, above: Drawing | None = None) -> None:
        """Draw the layers and `drawing` over the frame.

        Args:
            frame: A later frame of the same size.
            above: Another drawing on top.
        """
        frame = frame or self._frame
        drawings = [self.drawing] if above is None else [self.drawing, above]
        painter = self._painter
        if painter is not None and frame.texture is not None:
            painter.begin(frame.texture)
            for layer in self._layers:
                painter.layer(layer)
            for drawing in drawings:
                painter.draw(drawing)
            return
        pixels = frame.pixels[..., :3]
        if self._size != frame.size:
            pixels = np.asarray(Image.fromarray(pixels).resize(self._size[::-1]))
        for layer in self._layers:
            pixels = layer.over(pixels)
        picture = Image.fromarray(pixels)
        for drawing in drawings:
            picture = drawing.on_picture(picture)
        self._pixels = np.asarray(picture)

    def pixels(self) -> Array:
        """The finished picture, uint8 [height, width, 3]."""
        if self._painter is not None:
            return self._painter.pixels()
        if self._pixels is None:
            raise ValueError("expected a finished canvas: call finish first")
        return self._pixels
