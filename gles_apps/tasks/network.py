"""A network that looks at pictures, on the GPU or on LiteRT's CPU kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from gles_apps.tasks.assets import MissingFileError
from gles_apps.tasks.image import Image, ImageFormat
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.runner import TaskRunner
from gles_delegate import (
    GpuDelegate,
    GpuDelegateOptions,
    ImageOutput,
    ImageTransform,
    Interpreter,
    Metadata,
    ModelError,
)
from gles_delegate.image.transform import Size, picture_transform
from gles_delegate.litert.kernels import litert_cpu, litert_errors
from gles_delegate.model.graph import Array
from gles_delegate.model.reader import ModelFile
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.runtime.standalone import dequantize
from gles_delegate.support.closing import Closing, on_error

COLORED = (ImageFormat.SRGB, ImageFormat.SRGBA)


class PictureNetwork(Closing):
    """A network of a task; all its methods are called inside `TaskRunner.run`.

    Attributes:
        name: For messages and reports.
        inputs: See `Interpreter.get_input_details`.
        outputs: See `Interpreter.get_output_details`.
        arrays: The outputs of the last run as the model stores them, by position; empty if they
            were written to textures and not read.
        metadata: The model's metadata.
        report: Where its nodes run, a `DelegationReport`; None on the CPU.
        sees_alpha: Whether a network of four channels sees alpha; otherwise it sees 0.
    """

    def __init__(
        self, model: ModelFile, name: str, runner: TaskRunner, options: BaseOptions
    ) -> None:
        self.name = name
        self._runner = runner
        self._options = options
        self.metadata: Metadata = read_metadata(model.graph())
        self._delegate: GpuDelegate | None = None
        self._written: set[int] = set()
        self.arrays: list[Array] = []
        self._is_bound = False  # the picture is a texture
        self.sees_alpha = False
        if runner.is_on_gpu:
            used = options.gpu_options or GpuDelegateOptions()
            used = replace(used, own_thread=False, device_index=None)
            progress = None if options.progress is None else partial(options.progress, name)
            self._delegate = GpuDelegate(used, context=runner.context, progress=progress)
            with on_error(self._delegate.close):
                self._interpreter: Any = Interpreter(model, experimental_delegates=[self._delegate])
                self._delegate.bound.thread.need_not_be_closed()  # MediaPipe's tasks need not
        else:
            self._interpreter = litert_cpu(model, threads=os.cpu_count())
            with litert_errors(model):
                self._interpreter.allocate_tensors()
        self.report = None if self._delegate is None else self._delegate.report
        self._describe()
        if self._delegate is not None:  # before there are tensors, the host has the file's shapes
            self._delegate.bound.first.set_shapes(self.outputs)

    @cached_property
    def picture(self) -> int:
        """The position of the input that is a picture.

        Raises:
            ModelError: There is none.
        """
        for position, details in enumerate(self.inputs):
            match details["shape"].tolist():
                case [1, height, _, 1 | 3 | 4] | [1, 3, height, _] if height > 1:
                    return position
        shapes = [details["shape"].tolist() for details in self.inputs]
        raise ModelError(
            "expected a network with an input [1, height, width, 1, 3 or 4] or [1, 3, height, "
            f"width], found {shapes} in {self.name}"
        )

    @property
    def size(self) -> Size:
        """Height and width of the picture that it sees."""
        return self.transform.size_in(self.inputs[self.picture]["shape"].tolist())

    @property
    def shapes(self) -> list[list[int]]:
        """Shapes of the outputs."""
        return [details["shape"].tolist() for details in self.outputs]

    @cached_property
    def transform(self) -> ImageTransform:
        """Preprocessing of a whole picture, by the options and the metadata; see
        `ImageTransform.for_input`.

        Raises:
            ModelError: The metadata does not fit the input.
        """
        details = self.inputs[self.picture]
        metadata = self.metadata.inputs[self.picture]
        shape = details["shape"].tolist()
        dtype = np.dtype(details["dtype"]).name
        seen = picture_transform(shape, dtype, metadata, self._options.mean, self._options.std)
        # Networks of hair take the previous mask there; image_segmenter_graph.cc makes it 0.
        is_hidden = seen.channels == "rgba" and not self.sees_alpha
        return replace(seen, channels="rgb0") if is_hidden else seen

    def normalized(self, transform: ImageTransform) -> ImageTransform:
        """A detector's own preprocessing, in which the options take precedence."""
        mean = transform.mean if self._options.mean is None else self._options.mean
        std = transform.std if self._options.std is None else self._options.std
        return replace(transform, mean=mean, std=std)

    def require_normalization(self) -> None:
        """Raise MissingFileError if a network of floats does not say how colors become numbers,
        where the options ask for it.
        """
        details = self.inputs[self.picture]
        metadata = self.metadata.inputs[self.picture]
        is_known = metadata.mean or self._options.mean is not None
        if self._options.requires_normalization and details["dtype"] == np.float32 and not is_known:
            raise MissingFileError(
                "Input tensor has type float32: it requires specifying NormalizationOptions "
                "metadata to preprocess input images."
            )

    def __call__(self, image: Image, transform: ImageTransform, read: bool = True) -> list[Array]:
        """The dequantized outputs for a picture; see `run`."""
        self.set_picture(image, transform)
        return self.run({}, read)

    def set_picture(self, image: Image, transform: ImageTransform) -> None:
        """Set the input to a picture.

        Raises:
            RuntimeError: It is gray or of more than 8 bits, and the network sees colors.
        """
        formats = COLORED if transform.depth > 1 else (*COLORED, ImageFormat.GRAY8)
        if image.image_format not in formats:
            names = " or ".join(each.name for each in formats)
            raise RuntimeError(
                f"expected a picture of {names} for {self.name}, found {image.image_format.name}"
            )
        details = self.inputs[self.picture]
        index = details["index"]
        own = image.planes.options
        if any(getattr(transform, name) != value for name, value in own.items()):
            transform = replace(transform, **own)
        if self._delegate is not None and self._runner.fits(image):
            textures = self._runner.textures(image)
            self._is_bound = True
            self._delegate.bind_texture_to_tensor(index, textures, transform=transform)
            return
        dtype = np.dtype(details["dtype"]).name
        quantization = details["quantization"]
        planes = list(image.planes.arrays)
        picture = planes if len(planes) > 1 else planes[0]
        pixels = transform.apply(picture, self.size, dtype=dtype, quantization=quantization)
        if transform.is_planar(details["shape"]):
            pixels = np.moveaxis(pixels, 3, 1)
        if self._delegate is not None:
            if self._is_bound:
                self._delegate.unbind(index)
                self._is_bound = False
            self._interpreter.allocate_tensors()
        self._interpreter.set_tensor(index, pixels)

    def run(self, arrays: Mapping[int, Array], read: bool = True) -> list[Array]:
        """The dequantized outputs.

        Args:
            arrays: Inputs by position, besides the picture.
            read: Read outputs that are written to textures, too; otherwise they are empty.
        """
        if self._delegate is not None:
            self._interpreter.allocate_tensors()
        for position, array in arrays.items():
            self._interpreter.set_tensor(self.inputs[position]["index"], array)
        self._interpreter.invoke()
        self.arrays = [
            np.empty(details["shape"] * 0, details["dtype"])
            if position in self._written and not read
            else self._interpreter.get_tensor(details["index"])
            for position, details in enumerate(self.outputs)
        ]
        pairs = zip(self.arrays, self.outputs, strict=True)
        return [dequantize(array, details["quantization"]) for array, details in pairs]

    def write_to(self, position: int, texture: Any, output: ImageOutput) -> None:
        """Write an output [1, height, width, channels] to the caller's texture in each run.

        Raises:
            ValueError: See `GpuDelegate.bind_texture_to_tensor`.
        """
        assert self._delegate is not None
        index = self.outputs[position]["index"]
        self._delegate.bind_texture_to_tensor(index, texture, transform=output)
        self._written.add(position)

    def resize(self, size: Size) -> None:
        """Resize the picture to this height and width; outputs are read again."""
        for position in self._written:
            assert self._delegate is not None
            self._delegate.unbind(self.outputs[position]["index"])
        self._written.clear()
        details = self.inputs[self.picture]
        shape = details["shape"].tolist()
        shape[slice(2, 4) if self.transform.is_planar(shape) else slice(1, 3)] = size
        self._interpreter.resize_tensor_input(details["index"], shape)
        self._interpreter.allocate_tensors()
        self._describe()

    def _describe(self) -> None:
        self.inputs: list[dict[str, Any]] = self._interpreter.get_input_details()
        self.outputs: list[dict[str, Any]] = self._interpreter.get_output_details()

    def check(self) -> None:
        """Raise ContextLostError if the context is lost."""
        if self._delegate is not None:
            self._delegate.memory()

    def close(self) -> None:
        if self._delegate is not None:
            self._delegate.close()
