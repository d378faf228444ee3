"""Frames that a source lends: its own textures, given back when the GPU has read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gles_apps import tasks
from gles_apps.tasks.image import VideoColors
from gles_delegate import Fence, ImageTransform
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import read_texture
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import Closing


class Submitted(Protocol):
    """Work of the GPU: an `Invocation` or a `Fence`."""

    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True)
class Plane:
    """A texture of a frame, for `GpuDelegate.bind_texture_to_tensor`.

    Attributes:
        glo: Its GL name.
        size: Width and height.
        channels: 1, 2 or 4.
    """

    glo: int
    size: tuple[int, int]
    channels: int


class GpuFrame(Closing):
    """A frame on the GPU, on loan: close it, so that its source can reuse its textures.

    Attributes:
        textures: RGBA, or the planes of NV12 (Y, UV) or I420 (Y, U, V).
        colors: How they store colors: `yuv`, `full_range` and `siting` of `ImageTransform`.
        ready: A fence after the commands that write the textures, for
            `Interpreter.invoke_async(wait_for=)`.
        seconds: Presentation time, since the source's first frame; None: unknown.
    """

    def __init__(
        self,
        textures: Sequence[Plane],
        *,
        colors: VideoColors,
        ready: Fence,
        run: Callable[[Callable[[], list[Array]]], list[Array]],
        give_back: Callable[[Submitted | None], None],
        seconds: float | None = None,
    ) -> None:
        self.textures = tuple(textures)
        self.colors = colors
        self.ready = ready
        self.seconds = seconds
        self._run = run
        self._give_back = give_back
        self._is_lent = True

    @property
    def size(self) -> Size:
        """Height and width."""
        width, height = self.textures[0].size
        return height, width

    def matched(self, transform: ImageTransform) -> ImageTransform:
        """The transform with the frame's `colors`."""
        return replace(transform, **self.colors)

    def image(self) -> tasks.Image:
        """The frame for a task, which must have returned before the frame is closed."""
        return tasks.Image.create_from_planes(self.textures, **self.colors, fence=self.ready)

    @cached_property
    def pixels(self) -> Array:
        """The frame on the CPU, uint8 [height, width, 4] in RGBA; waits for the GPU.

        Raises:
            ValueError: The source is closed.
        """
        planes = self._run(self._read)
        transform = self.matched(ImageTransform(channels="rgba", mean=0, std=1, antialias=False))
        picture = planes if len(planes) > 1 else planes[0]
        return np.asarray(np.rint(transform.apply(picture, self.size)[0]), np.uint8)

    def _read(self) -> list[Array]:
        """The pixels of the textures, in the source's context."""
        gl = current_functions()
        return [read_texture(gl, each)[..., : each.channels] for each in self.textures]

    def close(self, after: Submitted | None = None) -> None:
        """Give it back to its source. A second call does nothing.

        Args:
            after: The last run that reads it. None: everything submitted to the current context,
                if there is one.
        """
        if self._is_lent:
            self._is_lent = False
            self._give_back(after)
