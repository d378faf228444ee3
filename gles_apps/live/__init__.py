"""Apps on pictures, videos and cameras, in a window or headless; the examples' base.

Needs the packages of the extra ``apps``: av, glfw, Pillow, rich.
"""

from gles_delegate.support.optional import needs

with needs("gles_apps.live", "apps", "av", "PIL", "rich"):
    from gles_apps.live.app import App, Canvas, Frame, Network
    from gles_apps.live.gstreamer import GStreamer, GStreamerSink
    from gles_apps.live.layers import Layer
    from gles_apps.live.loop import FrameHandler, ShowOptions, show
    from gles_apps.live.sources import Camera, GpuSource, Picture, Source, Video, open_source
    from gles_apps.live.tasks import frame_handler_for, repaint

__all__ = [
    "App",
    "Camera",
    "Canvas",
    "Frame",
    "FrameHandler",
    "GStreamer",
    "GStreamerSink",
    "GpuSource",
    "Layer",
    "Network",
    "Picture",
    "ShowOptions",
    "Source",
    "Video",
    "frame_handler_for",
    "open_source",
    "repaint",
    "show",
]
