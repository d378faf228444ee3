"""Apps on pictures, videos and cameras, in a window or headless; the examples' base.

Needs the packages of the extra ``apps``: av, glfw, Pillow, tqdm.
"""

from gles_apps.live.app import App, Canvas, Findings, Frame, Network, Timings
from gles_apps.live.frames import GpuFrame
from gles_apps.live.gstreamer import GStreamer, GStreamerSink
from gles_apps.live.layers import Layer
from gles_apps.live.show import Seer, ShowOptions, show
from gles_apps.live.sources import (
    Camera,
    GpuSource,
    Picture,
    Recording,
    Source,
    Video,
    open_source,
)
from gles_apps.live.tasks import (
    classify,
    detect,
    landmarks,
    pose,
    repaint,
    seer_for,
    segment,
)

__all__ = [
    "App",
    "Camera",
    "Canvas",
    "Findings",
    "Frame",
    "GStreamer",
    "GStreamerSink",
    "GpuFrame",
    "GpuSource",
    "Layer",
    "Network",
    "Picture",
    "Recording",
    "Seer",
    "ShowOptions",
    "Source",
    "Timings",
    "Video",
    "classify",
    "detect",
    "landmarks",
    "open_source",
    "pose",
    "repaint",
    "seer_for",
    "segment",
    "show",
]
