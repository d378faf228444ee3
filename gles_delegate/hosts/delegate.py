"""The delegate: a context, its thread, and the model it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gles_delegate.errors import DelegateError, LiteRtError
from gles_delegate.gl import mesa
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.current import is_moderngl_context
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.thread import CLOSED, GlThread, NotPickled
from gles_delegate.gl.watches import plain_name
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform
from gles_delegate.litert.check import require_known_layout
from gles_delegate.litert.native import NativeDelegate
from gles_delegate.model.graph import Array, Graph
from gles_delegate.model.reader import load_model, read_model
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.report import DelegationReport, MemoryReport, ProfileReport
from gles_delegate.runtime.binding import Binding, BufferBinding, Layout, TextureBinding
from gles_delegate.runtime.model import BoundModel
from gles_delegate.runtime.programs import Progress
from gles_delegate.support.closing import Closing
from gles_delegate.verification.verdict import wrong_ops

if TYPE_CHECKING:
    import moderngl


class GpuDelegate(NotPickled, Closing):
    """Runs a model's graph in OpenGL ES compute shaders.

    A delegate runs one model. Giving it to an interpreter binds the model; the same thread must
    make all later calls. The interpreter is either `gles_delegate.Interpreter` or LiteRT's own,
    which needs `model`:

    ```python
    ai_edge_litert.interpreter.Interpreter(
        path, experimental_delegates=[GpuDelegate(model=path)]
    )
    ```

    Args:
        options: See `GpuDelegateOptions`.
        context: None for its own EGL context, created when a model is bound; an `EglContext`,
            which stays the caller's; or the app's `moderngl.Context`, which is adopted and must
            be current at every call. "current" adopts the OpenGL or OpenGL ES context that is
            current when a model is bound, whatever library created it; a GLX context needs
            glcontext.
        model: The path or bytes of the model that LiteRT's interpreter runs.
        progress: ``progress(compiled, total)`` is called as programs compile, also by runs while
            others compile in the background. In it, calls of the delegate or the interpreter that
            need the GPU raise DelegateError.

    Any call raises WrongThreadError on another thread, WrongContextError while the adopted context
    is not current, and ContextLostError after the driver has reset the context.

    Raises:
        ValueError: The options and the context exclude each other.
        TypeError: An argument has the wrong type.

    Examples:
        >>> with gd.GpuDelegate() as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        ...     interpreter.allocate_tensors()
        ...     interpreter.invoke()
        ...     delegate.report.fully_delegated
        True
    """

    _any_thread = False
    """Whether callers on any thread take turns with the context, which is its own."""

    def __init__(
        self,
        options: GpuDelegateOptions | None = None,
        *,
        context: EglContext | moderngl.Context | Literal["current"] | None = None,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview | None = None,
        progress: Progress | None = None,
    ) -> None:
        _require_types(options, model, progress)
        self.options = options or GpuDelegateOptions()
        adopted = context == "current" or is_moderngl_context(context)
        if not adopted and not isinstance(context, EglContext | None):
            raise TypeError(
                'context must be None, "current", a gles_delegate.EglContext or a '
                f"moderngl.Context, not {context!r}"
            )
        if context is not None and self.options.device_index is not None:
            raise ValueError("device_index is for the delegate's own context: leave out context")
        if adopted and self.options.own_thread:
            raise ValueError("an adopted context stays on the app's thread: leave out own_thread")
        self._context = context
        self._model = model
        self._progress = progress
        self._thread: GlThread | None = None
        self._bound: BoundModel | None = None
        self._native: NativeDelegate | None = None
        self._bindings: dict[int, Binding] = {}
        self._closed = False

    def __repr__(self) -> str:
        if self._closed:
            state = "closed"
        elif self._bound is None or self._thread is None:
            state = "without a model"
        else:
            state = f"on {self._thread.gpu.driver.renderer}: {self.report.summary}"
        return f"<GpuDelegate {state}>"

    @property
    def report(self) -> DelegationReport:
        """Where each node of the first subgraph and of the signatures' subgraphs runs.

        It is empty before a model is bound.
        """
        return self._bound.report if self._bound else DelegationReport()

    def profile(self) -> ProfileReport:
        """Run the model once more on its present inputs, and measure each dispatch separately.

        The GPU's timer measures if the driver has timer queries. Otherwise, as on V3D, Mali with
        Mesa's driver, and llvmpipe, the CPU's clock does, waiting for each dispatch. The run
        changes variables.

        Raises:
            DelegateError: No model is bound, or it is not prepared.
        """
        return self.bound.profile()

    def memory(self) -> MemoryReport:
        """The GPU memory that the delegate holds now, for all segments of its model.

        All zeros before the interpreter's `allocate_tensors` and after `close`. The driver's own
        memory and the context's are not included.
        """
        return MemoryReport() if self._closed or self._bound is None else self._bound.memory()

    def bind(self, graph: Graph, keep_all: bool = False) -> BoundModel:
        """Bind a model: fixes the thread and the context, and lowers the graph.

        Args:
            keep_all: See `BoundModel`.

        Raises:
            ContextError: There is no usable context.
            UnsupportedModelError: `require_full_delegation` is set, and some nodes do not run on
                the GPU.
            DelegateError: The delegate is closed, or already runs a model.
        """
        self._require_open()
        if self._bound is not None:
            raise DelegateError(
                "this delegate already runs a model: make one GpuDelegate for each interpreter; "
                "they can share a context with GpuDelegate(context=EglContext())"
            )
        if self._thread is None:
            options = self.options
            self._thread = GlThread(
                lambda: GpuContext(
                    self._context,
                    options.device_index,
                    options.pin_software_threads,
                    _driver_settings(options) if self._context is None else {},
                    self._any_thread,
                ),
                options.own_thread,
                self._any_thread,
            )
        progress = self._thread.callback(self._progress) if self._progress else None
        try:
            if self.options.verify:
                self._thread.gpu.refuse(wrong_ops(self._thread, self.options))
            self._bound = BoundModel(
                graph, self._thread, self.options, self._bindings, progress, keep_all
            )
        except BaseException:
            self._thread.close(lambda: None)
            self._thread = None
            raise
        return self._bound

    def bind_buffer_to_tensor(
        self,
        tensor_index: int,
        buffer: moderngl.Buffer | int,
        *,
        offset: int = 0,
        layout: Layout = "bhwc",
        dtype: str | None = None,
    ) -> None:
        """Read an input from a GPU buffer, or write an output to one, instead of CPU memory.

        The buffer stays the caller's. It belongs to the delegate's context or to one that shares
        with it. Bind it before or after the interpreter is created; another one may replace it at
        any time. Sizes are checked again when shapes change. A run raises `ValueError` if the
        buffer was released or has become too small. A bound output is read back only by
        `get_tensor` and `read_tensor`; in LiteRT's own interpreter, after every run.

        Inputs may overlap in a buffer, and an output may overlap inputs, which a run reads before
        it writes the output. Outputs may not overlap.

        Args:
            buffer: A `moderngl.Buffer`, another object with a GL name in ``glo``, or the name.
            offset: Offset in the buffer in bytes, a multiple of 4. Multiples of 256 save a copy.
            layout: "bhwc", the tensor's row-major order; or "phwc4", the GPU's own: for each four
                channels all pixels, four numbers each, zero past the last channel. Nothing is
                converted for float32 "phwc4", nor for float32 "bhwc" of four channels.
            dtype: float32 or float16 for real numbers, and for the real values of quantized
                tensors; an input's are neither rounded to quantization steps nor clamped.
                Otherwise the tensor's type, which is the default; with "phwc4", float32 is the
                default of quantized tensors.

        Raises:
            ValueError: The tensor is not an input or output, its type or size does not fit the
                buffer, or it overlaps another output, or in a split graph an input that is read
                later; sizes may only be known, and checked, in `allocate_tensors`.
            WrongContextError: The buffer belongs to a context that does not share with the
                delegate's.
        """
        self._bind(tensor_index, BufferBinding(plain_name(buffer), offset, layout, dtype))

    def bind_texture_to_tensor(
        self,
        tensor_index: int,
        texture: Any,
        *,
        transform: ImageTransform | ImageOutput | None = None,
        region: moderngl.Buffer | int | None = None,
        region_offset: int = 0,
    ) -> None:
        """Sample an input from a texture, or write an output to one, on the GPU.

        As `bind_buffer_to_tensor`, for a tensor [1, height, width, channels], or an input [1,
        channels, height, width], of float32, uint8 or int8. Replacing a texture or its region
        costs almost nothing if the options are the same. Bind a texture again after its size or
        format changes.

        Args:
            texture: A 2D `moderngl.Texture`, another object with a GL name in ``glo``, or the
                name, also of numpy or ctypes. For an input: any float or normalized format (of sRGB
                the stored colors; LUMINANCE and its like give what shaders see), or a
                sequence of planes of NV12 or I420, or an external texture (see `import_picture`),
                or bytes of 4:2:2 (see `ImageTransform.packed`). For an output: RGBA8, RGBA16F or
                R32F, of the tensor's width and height. Of levels, the base level counts.
            transform: An `ImageTransform` for an input, an `ImageOutput` for an output.
            region: For an input: a buffer of 2 x 3 float32, such as another model's bound output,
                that replaces the `matrix` of `transform`. Each run reads it on the GPU, without a
                read-back. `transform` must have neither roi, rotation, fit, matrix, flip_x, flip_y
                nor opencv. Positions outside the picture, and NaN, get the padding.
            region_offset: Offset in that buffer in bytes, a multiple of 4.

        Raises:
            ValueError: As `bind_buffer_to_tensor`; or the transform has a region besides `region`.
            WrongContextError: As `bind_buffer_to_tensor`.
            TypeError: `texture` or `transform` has another type.
        """
        is_sequence = isinstance(texture, Sequence) and not isinstance(texture, str)
        is_several = is_sequence or (isinstance(texture, np.ndarray) and texture.ndim == 1)
        textures = tuple(map(plain_name, texture if is_several else (texture,)))
        binding = TextureBinding(textures, transform, plain_name(region), region_offset)
        self._bind(tensor_index, binding)

    def read_tensor(self, tensor_index: int) -> Array:
        """Wait for the last run, and read an output that is bound to a buffer or texture.

        Returns:
            An array of the tensor's shape and type.

        Raises:
            ValueError: The tensor is not a bound output, or no model is prepared.
        """
        result = self.bound.first.read_result(tensor_index)
        if result is None:
            raise ValueError(
                f"tensor {tensor_index} is not a bound output; bound tensors: "
                f"{sorted(self._bindings)}"
            )
        return result

    def unbind(self, tensor_index: int) -> None:
        """Take an input from `set_tensor` again, or read an output back in every `invoke`.

        Raises:
            ValueError: Nothing is bound to the tensor.
        """
        if tensor_index not in self._bindings:
            raise ValueError(
                f"nothing is bound to tensor {tensor_index}, only to {sorted(self._bindings)}"
            )
        self._bind(tensor_index, None)

    def _bind(self, index: int, binding: Binding | None) -> None:
        self._require_open()
        if self._bound is not None:
            self._bound.first.bind(index, binding)
        elif binding is None:
            del self._bindings[index]
        else:
            self._bindings[index] = binding

    def close(self) -> None:
        """Free every GL object, and the context if it is the delegate's own.

        Call it on the thread that bound the model. A second call does nothing. A delegate that is
        never closed gives a ResourceWarning; the next delegate call on its thread frees it.

        Raises:
            WrongThreadError, WrongContextError: As for any call; it stays open.
            ContextLostError, GLError: Something could not be freed. It is closed nevertheless.
        """
        if self._closed:
            return
        try:
            if self._thread is not None:
                if self._bound is not None:
                    self._thread.close(self._bound.release)
                else:
                    self._thread.close(lambda: None)
        finally:
            self._closed = self._thread is None or self._thread.is_closed

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close it; replace LiteRT's RuntimeError about a failure of the delegate.

        Raises:
            LiteRtError: LiteRT's RuntimeError quotes an exception of the delegate, its cause.
            KeyboardInterrupt, SystemExit: It quotes this one.
        """
        super().__exit__(kind, error, traceback)
        failure = self._native.failure if self._native else None
        if not isinstance(error, RuntimeError) or failure is None or failure is error:
            return
        if isinstance(failure, Exception):
            raise LiteRtError(str(error)) from failure
        if f"{type(failure).__name__}: " in str(error):  # not from an earlier call
            raise failure from error

    @property
    def bound(self) -> BoundModel:
        """The bound model; raises DelegateError if it is closed, or no model is bound."""
        self._require_open()
        if self._bound is None:
            raise DelegateError("the delegate has no model yet: give it to an interpreter")
        return self._bound

    @property
    def gpu(self) -> GpuContext:
        """The bound context; raises DelegateError if it is closed, or no model is bound."""
        self._require_open()
        if self._thread is None:
            raise DelegateError("the delegate has no context before a model is bound to it")
        return self._thread.gpu

    def _get_native_delegate_pointer(self) -> int:
        """Called by LiteRT's interpreter, on the thread that will run it.

        Raises:
            ValueError: `model` is None.
            ModelError: It is damaged.
            DelegateError: As for `bind`.
            LiteRtError: The installed LiteRT has another binary interface.
        """
        model = self._model
        if model is None:
            raise ValueError(
                "LiteRT's interpreter does not tell a delegate its model: make it with "
                "GpuDelegate(model=...), the path or bytes that the interpreter is given"
            )
        require_known_layout()
        graph = load_model(model) if isinstance(model, str | os.PathLike) else read_model(model)
        bound = self.bind(graph)
        self._native = NativeDelegate(graph, bound.subgraphs)
        bound.thread.need_not_be_closed()  # LiteRT's interpreter may own it
        return self._native._get_native_delegate_pointer()

    def _require_open(self) -> None:
        if self._closed:
            raise DelegateError(CLOSED)


def _require_types(options: object, model: object, progress: object) -> None:
    if not isinstance(options, GpuDelegateOptions | None):
        example = "GpuDelegateOptions(own_thread=True)"
        if isinstance(options, str | os.PathLike):
            example = f"model={os.fspath(options)!r}"
        raise TypeError(
            f"options must be a gles_delegate.GpuDelegateOptions, not a {type(options).__name__}: "
            f"write GpuDelegate({example}), for example"
        )
    if not isinstance(model, str | os.PathLike | bytes | bytearray | memoryview | None):
        raise TypeError(
            f"model must be the path of a .tflite file or its bytes, not a {type(model).__name__}"
        )
    if progress is not None and not callable(progress):
        raise TypeError(
            "progress must be a function of two numbers, of compiled programs and of all, not a "
            f"{type(progress).__name__}"
        )


def _driver_settings(options: GpuDelegateOptions) -> dict[str, str]:
    """The driver's environment variables for these options."""
    settings: dict[str, str] = {}
    if options.serialization_dir is not None:
        settings |= mesa.shader_cache(options.serialization_dir)
    if options.software_vector_bits is not None:
        settings |= mesa.vector_bits(options.software_vector_bits)
    return settings
