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

from gles_apps import tasks
from gles_apps.live.frames import GpuFrame
from gles_apps.live.layers import Layer
from gles_apps.live.painter import Painter
from gles_apps.tasks.assets import ModelPath
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import Delegate
from gles_apps.tasks.runner import TaskRunner
from gles_apps.tasks.task import VisionTask
from gles_apps.vision.drawing import Drawing
from gles_delegate import GpuDelegateOptions, ImageOutput, ImageTransform, Metadata
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import Texture
from gles_delegate.gl.texture import PixelTexture
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.model.reader import ModelFile, read_file
from gles_delegate.support.closing import in_any_case

if TYPE_CHECKING:
    import moderngl

R = TypeVar("R")


class Timings:
    """Times of a frame's stages.

    Attributes:
        milliseconds: Each stage's mean over the last ten frames or so. The first time, which
            includes compilation, counts only until there is a second one.
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


class ObjectCounts:
    """Counts of detected objects by kind; ``str`` gives a line for each kind.

    Attributes:
        most: Maximum number of objects of a kind in one frame.
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
            self.frames[kind] = self.frames.get(kind, 0) + (1 if count > 0 else 0)

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
        texture: The same pixels on the GPU, or a frame that a source lends.
        seconds: The presentation time since the first frame of a file or a pipeline; time since the
            app started for cameras.

    Examples:
        >>> def see(frame, canvas):
        ...     canvas.drawing.text((20, 20), str(frame.size))
        >>> options = live.ShowOptions(headless=True, frames=1)
        >>> app = live.show(lambda app: see, live.Picture(Path("face.jpg")), options)
    """

    def __init__(self, pixels: Array | None, texture: Texture | GpuFrame, seconds: float) -> None:
        self._pixels = pixels
        self.texture = texture
        self.seconds = seconds
        self._lent = texture if isinstance(texture, GpuFrame) else None

    @property
    def size(self) -> Size:
        """Height and width."""
        if self._lent is not None:
            return self._lent.size
        width, height = self.texture.size
        return height, width

    @property
    def pixels(self) -> Array:
        """Uint8 [height, width, 4], RGBA; reads a lent frame back."""
        if self._lent is not None:
            return self._lent.pixels
        assert self._pixels is not None
        return self._pixels

    def image(self) -> tasks.Image:
        """The frame for a task."""
        if self._lent is not None:
            return self._lent.image()
        return tasks.Image.create_from_texture(self.texture)

    def give_back(self) -> None:
        """Return a lent texture to its source; any other frame keeps its own."""
        if self._lent is not None:
            self._lent.close()


class App:
    """The networks of an app.

    Args:
        ctx: The context that draws, current at every call: a `moderngl.Context`, or "current" for
            any other.
        cache: A folder for compiled shaders and packed weights.
        antialias: See `tasks.BaseOptions`.

    Attributes:
        timings: Times of a frame's stages.
        counts: Counts of detected objects; see `Canvas.count`.
        progress: Called while a network is prepared, with its name, the number of compiled
            programs, and their total.

    Examples:
        >>> def make(app):
        ...     network = app.network(Path("ball_segmenter.tflite"))
        ...     return lambda frame, canvas: network(frame)
        >>> options = live.ShowOptions(headless=True, frames=2)
        >>> app = live.show(make, live.Picture(Path("face.jpg")), options)
        >>> app.counts.seen
        2
    """

    def __init__(
        self,
        ctx: moderngl.Context | Literal["current"],
        *,
        cache: Path | None = None,
        antialias: bool = True,
    ) -> None:
        self.ctx = ctx
        self.cache = cache
        self.antialias = antialias
        self.timings = Timings(lambda: current_functions().glFinish())
        self.counts = ObjectCounts()
        self.progress: Callable[[str, int, int], None] = lambda name, compiled, total: None
        self._networks: list[Network | FrameTask[Any]] = []
        self._runner: TaskRunner | None = None

    @property
    def runner(self) -> TaskRunner:
        """Where networks run."""
        if self._runner is None:
            self._runner = TaskRunner(self.ctx, Delegate.GPU)
        return self._runner

    def base_options(
        self, model: ModelPath | None = None, *, mean: float | None = None, std: float | None = None
    ) -> tasks.BaseOptions:
        """Options of a task that runs where networks run.

        Args:
            model: See `BaseOptions.model_asset_path`.
            mean: See `BaseOptions`.
            std: Likewise.
        """
        return tasks.BaseOptions(
            model,
            delegate=Delegate.GPU,
            context=self.ctx,
            gpu_options=GpuDelegateOptions(serialization_dir=self.cache),
            antialias=self.antialias,
            mean=mean,
            std=std,
            progress=lambda *progress: self.progress(*progress),
        )

    def task(self, task: VisionTask[R], name: str) -> FrameTask[R]:
        """A task on frames that is closed with the app.

        Args:
            task: Made of `base_options`, in the video mode.
            name: The name of its stage in `timings`.
        """
        made = FrameTask(self, task, name)
        self._networks.append(made)
        return made

    def network(
        self, path: Any, name: str = "", *, mean: float | None = None, std: float | None = None
    ) -> Network:
        """A model that is closed with the app.

        Args:
            path: A .tflite file, or a path into a bundle.
            name: The name of its stage in `timings`; default: the file's.
            mean: Its input gets (color - mean) / std, with colors of 0 to 255; default: the
                metadata's.
            std: See `mean`.
        """
        options = self.base_options(mean=mean, std=std)
        model = read_file(path)
        title = name or (model.path.stem if model.path is not None else "model")
        return self.network_of(model, title, options)

    def network_of(self, model: ModelFile, name: str, options: tasks.BaseOptions) -> Network:
        """See `network`; `options` are `base_options`."""
        network = Network(self, model, name, options)
        self._networks.append(network)
        return network

    def close(self) -> None:
        """Close all networks; the context must be current."""
        runners = [] if self._runner is None else [self._runner]
        in_any_case(each.close for each in (*self._networks, *runners))


class FrameTask(Generic[R]):
    """A task on the frames of an app."""

    def __init__(self, app: App, task: VisionTask[R], name: str) -> None:
        self.task = task
        self._app = app
        self._name = name
        self._time = -1

    def __call__(self, frame: Frame) -> R:
        """The result for a frame."""
        with self._app.timings.measure(self._name):
            self._time = max(round(1000 * frame.seconds), self._time + 1)
            return self.task.process_frame(frame.image(), self._time)

    def close(self) -> None:
        self.task.close()


class Network:
    """A model for frames.

    Attributes:
        metadata: The model's metadata.
        pictures: Makes textures of outputs, by position. Set it before the first frame.
        transform: Preprocessing of a whole frame; see `ImageTransform.for_input`. May be replaced.

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

    def __init__(self, app: App, model: ModelFile, name: str, options: tasks.BaseOptions) -> None:
        self._app = app
        self._name = name
        self._antialias = options.antialias
        self._network = PictureNetwork(model, name, app.runner, options)
        self.metadata: Metadata = self._network.metadata
        self.pictures: dict[int, ImageOutput] = {}
        self._textures: dict[int, PixelTexture] = {}

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """See `Interpreter.get_input_details`."""
        return self._network.inputs

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """See `Interpreter.get_output_details`."""
        return self._network.outputs

    @cached_property
    def transform(self) -> ImageTransform:
        return replace(self._network.transform, antialias=self._antialias)

    @property
    def labels(self) -> list[str]:
        """The class names in the model's metadata."""
        return next((list(output.labels) for output in self.metadata.outputs if output.labels), [])

    @property
    def size(self) -> Size:
        """Height and width of the input."""
        return self._network.size

    def resize(self, size: Size) -> None:
        """Resize the input to this height and width; changes `inputs` and `outputs`."""
        if size != self.size:
            for texture in self._textures.values():
                texture.release()
            self._textures.clear()
            self._network.resize(size)

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
            The outputs: textures, and dequantized arrays.
        """
        with self._app.timings.measure(self._name):
            self._network.set_picture(frame.image(), transform or self.transform)
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
        return Layer(picture, matrix=transform.affine(frame.size, (height, width)), **style)

    def close(self) -> None:
        self._network.close()

    def _run(self, arrays: Mapping[int, Array]) -> list[Any]:
        """Textures of outputs that have them, and dequantized arrays."""
        for position in self.pictures.keys() - self._textures.keys():
            match self._network.shapes[position]:
                case [_, height, width, _]:
                    texture = self._app.runner.new_texture((height, width, 4))
                    self._textures[position] = texture
                    self._network.write_to(position, texture, self.pictures[position])
        results: list[Any] = self._network.run(arrays, read=False)
        for position, picture in self.pictures.items():
            if position in self._textures:
                results[position] = self._textures[position]
            else:  # an output without channels
                results[position] = picture.apply(results[position][..., np.newaxis])
        return results


class Canvas:
    """A frame with layers, and a drawing on top.

    Networks may see a frame on a different thread than the one that draws: `layer` only collects,
    and `finish` draws.

    Args:
        frame: The frame.
        painter: Draws it.
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
        >>> print(app.counts)
        1 clock
    """

    def __init__(
        self,
        frame: Frame,
        painter: Painter,
        size: Size,
        keep: Callable[[Texture], Texture] | None = None,
    ) -> None:
        self.drawing = Drawing(size)
        self.counts: dict[str, int] = {}
        self._frame = frame
        self._painter = painter
        self._keep = keep
        self._scale = (size[1] / frame.size[1], size[0] / frame.size[0])
        self._layers: list[Layer] = []

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
        self._painter.begin(frame.texture)
        for layer in self._layers:
            self._painter.layer(layer)
        for drawing in (self.drawing, *([] if above is None else [above])):
            self._painter.draw(drawing)

    def pixels(self) -> Array:
        """The finished picture, uint8 [height, width, 3]."""
        return self._painter.pixels()
