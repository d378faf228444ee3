"""Parts of the delegate for apps, such as `gles_apps`, beyond its public names.

They may change with any version; the public names of `gles_delegate` do not.

- Lifetime: `Closing`, `on_error`, `in_any_case`, `release_all`; texts: `reason_of`,
  `sentence_of`, `without_nan`.
- Contexts and threads: `GpuContext` in a `GlThread`, the functions of the current context
  (`current_functions`, `Functions`, `gl_names`), a `Mark` that recognizes it, and what restores the
  app's state (`textures_restored`, `drawing_restored`).
- Textures and drawing: `PixelTexture`, `texture_level`, `read_texture`; programs, vertices and
  framebuffers for pictures on the screen.
- Pictures: `picture_transform` and its parts, Pillow's pictures as tensors, colors of video.
- Models: a `ModelFile` and its `Graph`, metadata, bundles, and LiteRT's CPU kernels.
"""

from __future__ import annotations

from gles_delegate.bench.comparison import prepare as prepare_interpreter
from gles_delegate.errors import reason_of, sentence_of
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import GpuContext, textures_restored
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import (
    DrawProgram,
    Framebuffer,
    Instances,
    Texture,
    Triangle,
    Uniform,
    drawing_restored,
    read_texture,
)
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import libegl, release_thread
from gles_delegate.gl.mark import Mark
from gles_delegate.gl.sync import wait_on_gpu
from gles_delegate.gl.texture import Pixels, PixelTexture, Sampler
from gles_delegate.gl.thread import GlThread, NotPickled
from gles_delegate.gl.thread import start as start_thread
from gles_delegate.gl.watches import texture_level
from gles_delegate.hosts.interpreter import unique_names
from gles_delegate.image.colors import LUMA, SITING, yuv_to_rgb
from gles_delegate.image.pictures import PICTURES, as_tensor, channels_last, picture_mode
from gles_delegate.image.pictures import converted as converted_picture
from gles_delegate.image.pictures import load as load_picture
from gles_delegate.image.transform import Fit, Packed, Siting, Size, Yuv, picture_transform, resized
from gles_delegate.litert.kernels import litert_cpu, litert_errors
from gles_delegate.model.bundle import files_in, model_of
from gles_delegate.model.files import LITERT_TEXT, read_regular, require_regular
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.model.metadata import ScoreCalibration
from gles_delegate.model.protobuf import Message, ProtobufError
from gles_delegate.model.reader import ModelFile, find_file, naming_file, read_file
from gles_delegate.planning.outputs import prepared, read_metadata
from gles_delegate.planning.rows import keeps_resources, keeps_states
from gles_delegate.report import without_nan
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.standalone import dequantize
from gles_delegate.runtime.standalone import describe as describe_tensor
from gles_delegate.shaders.files import read_body
from gles_delegate.support.closing import Closing, in_any_case, on_error, release_all
from gles_delegate.support.optional import installed, lacks_extra, needs, pillow

__all__ = [
    "LITERT_TEXT",
    "LUMA",
    "PICTURES",
    "SITING",
    "Array",
    "Closing",
    "Content",
    "Delegation",
    "DrawProgram",
    "Fit",
    "FlatTable",
    "Framebuffer",
    "Functions",
    "GlThread",
    "GpuContext",
    "Graph",
    "Instances",
    "Mark",
    "Message",
    "ModelFile",
    "NotPickled",
    "Packed",
    "PixelTexture",
    "Pixels",
    "ProtobufError",
    "Sampler",
    "ScoreCalibration",
    "Siting",
    "Size",
    "Tensor",
    "Texture",
    "Triangle",
    "Uniform",
    "Yuv",
    "as_tensor",
    "channels_last",
    "converted_picture",
    "current_context",
    "current_functions",
    "dequantize",
    "describe_tensor",
    "drawing_restored",
    "files_in",
    "find_file",
    "gl_names",
    "in_any_case",
    "installed",
    "keeps_resources",
    "keeps_states",
    "lacks_extra",
    "libegl",
    "litert_cpu",
    "litert_errors",
    "load_picture",
    "model_of",
    "naming_file",
    "needs",
    "on_error",
    "picture_mode",
    "picture_transform",
    "pillow",
    "prepare_interpreter",
    "prepared",
    "read_body",
    "read_file",
    "read_metadata",
    "read_regular",
    "read_texture",
    "reason_of",
    "release_all",
    "release_thread",
    "require_regular",
    "resized",
    "sentence_of",
    "start_thread",
    "texture_level",
    "textures_restored",
    "unique_names",
    "wait_on_gpu",
    "without_nan",
    "yuv_to_rgb",
]
