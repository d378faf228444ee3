"""An app with its own GL context, whose buffers and textures are bound to tensors."""

from typing import Any

import moderngl
import numpy as np
from numpy.typing import NDArray

import gles_delegate as gd
from tests.support.pixels import read_texture
from tests.support.small import allocated


class App:
    """A context that an app draws in, and a delegate in it."""

    def __init__(
        self, options: gd.GpuDelegateOptions | None = None, model: bytes | None = None
    ) -> None:
        self.egl = gd.EglContext()
        with self.egl:
            self.ctx = moderngl.create_context(context=self.egl, require=310)  # type: ignore[arg-type]
            self.ctx.clear_errors()
        self.delegate = gd.GpuDelegate(options, context=self.egl, model=model)

    def texture(self, array: NDArray[Any]) -> moderngl.Texture:
        """[height, width, channels] of uint8, float16 or float32."""
        array = array.reshape(*array.shape[:2], -1)
        kind = {"uint8": "f1", "float16": "f2", "float32": "f4"}[array.dtype.name]
        with self.egl:
            size = (array.shape[1], array.shape[0])
            data = np.ascontiguousarray(array).tobytes()
            return self.ctx.texture(size, array.shape[2], data, alignment=1, dtype=kind)

    def buffer(self, data: NDArray[Any] | bytes | int) -> moderngl.Buffer:
        """A buffer of an array's bytes, or of that number of NaN bytes."""
        if isinstance(data, int):
            data = b"\xff" * data
        with self.egl:
            return self.ctx.buffer(data if isinstance(data, bytes) else data.tobytes())

    def read(self, what: moderngl.Buffer | moderngl.Texture, dtype: str) -> NDArray[Any]:
        with self.egl:
            if isinstance(what, moderngl.Buffer):
                return np.frombuffer(what.read(), dtype)
            return read_texture(self.egl.load, what).view(dtype).ravel()

    def interpreter(self, model: bytes) -> gd.Interpreter:
        return allocated(self.delegate, model)

    def close(self) -> None:
        self.delegate.close()
        self.egl.release()
