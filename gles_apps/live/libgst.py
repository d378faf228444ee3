"""GStreamer's libraries through ctypes, loaded at first use.

Unlike the Python bindings of a distribution, this works with every Python, and maps textures, which
those bindings cannot.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from typing import Any

DEBIAN_PACKAGES = "gstreamer1.0-gl gstreamer1.0-plugins-good gstreamer1.0-libav"
SECOND = 1_000_000_000
NO_TIME = 2**64 - 1  # GST_CLOCK_TIME_NONE
OK = 0  # GstFlowReturn
TAG = 80 << 8 | 30  # GstEventType: downstream, serialized, sticky, several

# GstState
NULL = 1
PAUSED = 3
PLAYING = 4

# GstStateChangeReturn
FAILURE = 0
NO_PREROLL = 3

# GstMessageType
END = 1 << 0
ERROR = 1 << 1

# GstMapFlags
READ = 1
WRITE = 2
GL = 1 << 17

EGL = 1 << 0  # GstGLPlatform
GLES2 = 1 << 16  # GstGLAPI, which also is OpenGL ES 3

DISPLAY_TYPE = b"gst.gl.GLDisplay"
_Handle = c_size_t
_Clock = ctypes.c_uint64

Task = CFUNCTYPE(None, _Handle, _Handle)
"""A GstGLContextThreadFunc: the context, and data."""


class GError(Structure):
    """An error of GLib's."""

    _fields_ = [("domain", c_uint), ("code", c_int), ("message", c_char_p)]


class MapInfo(Structure):
    """A GstMapInfo."""

    _fields_ = [
        ("memory", _Handle),
        ("flags", c_int),
        ("data", POINTER(c_uint)),
        ("size", c_size_t),
        ("maxsize", c_size_t),
        ("user_data", c_void_p * 4),
        ("reserved", c_void_p * 4),
    ]


class MiniObject(Structure):
    """A GstMiniObject."""

    _fields_ = [
        ("type", c_size_t),
        ("counts", c_int * 2),
        ("flags", c_uint),
        ("functions", c_void_p * 3),
        ("private", c_uint),
        ("private_pointer", c_void_p),
    ]


class GstMessage(Structure):
    """The first fields of a message of the bus."""

    _fields_ = [("object", MiniObject), ("kind", c_int)]


class GstBuffer(Structure):
    """The public fields of a buffer."""

    _fields_ = [
        ("object", MiniObject),
        ("pool", c_void_p),
        ("pts", ctypes.c_uint64),
        ("dts", ctypes.c_uint64),
        ("duration", ctypes.c_uint64),
    ]


class VideoInfo(Structure):
    """A GstVideoInfo, whose `format` points to a GstVideoFormatInfo."""

    _fields_ = [
        ("format", POINTER(c_int)),
        ("interlace_mode", c_int),
        ("flags", c_int),
        ("width", c_int),
        ("height", c_int),
        ("size", c_size_t),
        ("views", c_int),
        ("chroma_site", c_int),
        ("range", c_int),
        ("matrix", c_int),
        ("transfer", c_int),
        ("primaries", c_int),
        ("pixel_aspect", c_int * 2),
        ("rate", c_int * 2),
        ("offset", c_size_t * 4),
        ("stride", c_int * 4),
        ("reserved", c_void_p * 4),
    ]


_Errors = POINTER(POINTER(GError))
_Info = POINTER(MapInfo)
_PROTOTYPES: dict[str, dict[str, tuple[Any, ...]]] = {  # library: {name: (result, *arguments)}
    "glib-2.0": {
        "g_error_free": (None, POINTER(GError)),
        "g_free": (None, c_void_p),
        "g_propagate_error": (None, _Errors, POINTER(GError)),
    },
    "gstreamer-1.0": {
        "gst_init_check": (c_int, c_void_p, c_void_p, _Errors),
        "gst_parse_launch": (_Handle, c_char_p, _Errors),
        "gst_bin_get_by_name": (_Handle, _Handle, c_char_p),
        "gst_element_set_state": (c_int, _Handle, c_int),
        "gst_element_set_context": (None, _Handle, _Handle),
        "gst_caps_from_string": (_Handle, c_char_p),
        "gst_buffer_pool_acquire_buffer": (c_int, _Handle, POINTER(POINTER(GstBuffer)), c_void_p),
        "gst_buffer_pool_config_set_params": (None, _Handle, _Handle, c_uint, c_uint, c_uint),
        "gst_buffer_pool_get_config": (_Handle, _Handle),
        "gst_buffer_pool_set_active": (c_int, _Handle, c_int),
        "gst_buffer_pool_set_config": (c_int, _Handle, _Handle),
        "gst_element_get_bus": (_Handle, _Handle),
        "gst_element_get_static_pad": (_Handle, _Handle, c_char_p),
        "gst_pad_get_sticky_event": (_Handle, _Handle, c_int, c_uint),
        "gst_event_parse_tag": (None, _Handle, POINTER(_Handle)),
        "gst_tag_list_get_string": (c_int, _Handle, c_char_p, POINTER(c_void_p)),
        "gst_bus_timed_pop_filtered": (_Handle, _Handle, _Clock, c_int),
        "gst_message_parse_error": (None, _Handle, _Errors, POINTER(c_void_p)),
        "gst_context_new": (_Handle, c_char_p, c_int),
        "gst_sample_get_buffer": (_Handle, _Handle),
        "gst_sample_get_caps": (_Handle, _Handle),
        "gst_buffer_peek_memory": (_Handle, _Handle, c_uint),
        "gst_memory_map": (c_int, _Handle, _Info, c_int),
        "gst_memory_unmap": (None, _Handle, _Info),
        "gst_object_unref": (None, _Handle),
        "gst_mini_object_unref": (None, _Handle),
    },
    "gstapp-1.0": {
        "gst_app_sink_try_pull_sample": (_Handle, _Handle, _Clock),
        "gst_app_sink_is_eos": (c_int, _Handle),
        "gst_app_sink_set_drop": (None, _Handle, c_int),
        "gst_app_sink_set_max_buffers": (None, _Handle, c_uint),
        "gst_app_src_set_caps": (None, _Handle, _Handle),
        "gst_app_src_push_buffer": (c_int, _Handle, POINTER(GstBuffer)),
        "gst_app_src_end_of_stream": (c_int, _Handle),
    },
    "gstvideo-1.0": {
        "gst_video_info_from_caps": (c_int, POINTER(VideoInfo), _Handle),
        "gst_video_format_to_string": (c_char_p, c_int),
    },
    "gstgl-1.0": {
        "gst_is_gl_memory": (c_int, _Handle),
        "gst_context_set_gl_display": (None, _Handle, _Handle),
        "gst_gl_display_egl_new_with_egl_display": (_Handle, _Handle),
        "gst_gl_display_filter_gl_api": (None, _Handle, c_int),
        "gst_gl_display_add_context": (c_int, _Handle, _Handle),
        "gst_gl_buffer_pool_new": (_Handle, _Handle),
        "gst_gl_context_new": (_Handle, _Handle),
        "gst_gl_context_new_wrapped": (_Handle, _Handle, _Handle, c_int, c_int),
        "gst_gl_context_create": (c_int, _Handle, _Handle, _Errors),
        "gst_gl_context_thread_add": (None, _Handle, Task, _Handle),
        "gst_gl_context_get_current_gl_api": (c_int, c_int, c_void_p, c_void_p),
    },
}


class LibGst:
    """The functions of `_PROTOTYPES`, as attributes.

    Raises:
        OSError: GStreamer is not installed, or cannot start.
    """

    def __init__(self) -> None:
        for library, prototypes in _PROTOTYPES.items():
            try:
                loaded = ctypes.CDLL(f"lib{library}.so.0")
                for name, (result, *arguments) in prototypes.items():
                    function = getattr(loaded, name)
                    function.restype = result
                    function.argtypes = arguments
                    setattr(self, name, function)
            except (OSError, AttributeError) as error:
                raise OSError(
                    f"GStreamer is not installed ({error}): apt install {DEBIAN_PACKAGES}"
                ) from error
        with self.raising("cannot start GStreamer") as errors:
            self.gst_init_check(None, None, errors)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no prototype of {name} is declared")

    @contextmanager
    def raising(self, action: str) -> Iterator[Any]:
        """Its ``with`` block passes a GError to a function, and raises it as an OSError."""
        error = POINTER(GError)()
        try:
            yield byref(error)
        finally:
            if error:
                message = error.contents.message.decode("utf-8", "replace")
                self.g_error_free(error)
                raise OSError(f"{action}: {message}")


@cache
def libgst() -> LibGst:
    """GStreamer; see `LibGst`."""
    return LibGst()
