"""GPU inference for TensorFlow Lite / LiteRT models on OpenGL ES 3.1, wherever EGL runs."""

from typing import TYPE_CHECKING

from gles_delegate.bench.compatibility import CompatibilityList
from gles_delegate.errors import (
    ContextError,
    ContextLostError,
    DelegateError,
    GLError,
    LiteRtError,
    ModelError,
    OutOfGpuMemoryError,
    ShaderError,
    UnsupportedModelError,
    WrongContextError,
    WrongThreadError,
)
from gles_delegate.gl.devices import Device
from gles_delegate.gl.dmabuf import DmabufPictures, ImportedTexture, import_dmabuf, import_picture
from gles_delegate.gl.egl import EglContext, list_devices
from gles_delegate.gl.sync import Fence
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.hosts.environment import litert_environment
from gles_delegate.hosts.interpreter import Interpreter, SignatureRunner
from gles_delegate.hosts.loading import load_delegate
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.metadata import Metadata, TensorMetadata
from gles_delegate.options import GpuDelegateOptions, InferencePreference, InferencePriority
from gles_delegate.report import DelegationReport, DispatchTime, MemoryReport, ProfileReport
from gles_delegate.runtime.invocation import Invocation
from gles_delegate.support.moved import MOVED, place_of, refuse_imports
from gles_delegate.version import __version__ as __version__

__all__ = [
    "CompatibilityList",
    "ContextError",
    "ContextLostError",
    "DelegateError",
    "DelegationReport",
    "Device",
    "DispatchTime",
    "DmabufPictures",
    "EglContext",
    "Fence",
    "GLError",
    "GpuDelegate",
    "GpuDelegateOptions",
    "ImageOutput",
    "ImageTransform",
    "ImportedTexture",
    "InferencePreference",
    "InferencePriority",
    "Interpreter",
    "Invocation",
    "LiteRtError",
    "MemoryReport",
    "Metadata",
    "ModelError",
    "OutOfGpuMemoryError",
    "ProfileReport",
    "ShaderError",
    "SignatureRunner",
    "TensorMetadata",
    "UnsupportedModelError",
    "WrongContextError",
    "WrongThreadError",
    "import_dmabuf",
    "import_picture",
    "list_devices",
    "litert_environment",
    "load_delegate",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        reason = f": {place_of(name)}" if name in MOVED else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{reason}")


refuse_imports()
