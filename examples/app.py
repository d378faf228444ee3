"""Code shared by the examples: the command line, and bundles of networks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from imaging import ending_in_a_sentence, positive, require_inputs_kept

from gles_apps.live import App, FrameHandler, GpuSource, ShowOptions, Source, open_source, show


def parser(text: str, *, frames: bool = True, **models: str) -> argparse.ArgumentParser:
    """Build the command line of an example that reads frames.

    Args:
        text: The example's docstring; its first line is the description.
        frames: Accept pictures, videos and cameras; if False, the example has its own source.
        models: The example's networks: argument names and help texts; "models" is a list.
    """
    result = argparse.ArgumentParser(
        description=text.splitlines()[0], epilog="keys in the window: Q quits, T shows timings"
    )
    for name, what in models.items():
        count = "+" if name == "models" else None
        result.add_argument(name, type=Path, nargs=count, help=what)
    if frames:
        group = result.add_argument_group("frames").add_mutually_exclusive_group(required=True)
        group.add_argument("--picture", type=Path, help="a picture file")
        group.add_argument("--video", type=Path, help="a video file")
        group.add_argument(
            "--camera",
            metavar="N",
            help="/dev/videoN, or FORMAT:NAME of FFmpeg's devices, such as x11grab::0",
        )
        group.add_argument(
            "--gstreamer",
            metavar="PIPELINE",
            help="GStreamer's elements up to raw video, such as 'v4l2src ! decodebin'",
        )
    results = result.add_argument_group("results")
    results.add_argument("--headless", action="store_true", help="no window")
    results.add_argument("--output", type=Path, help="a video, or a picture of the last frame")
    results.add_argument("--frames", type=positive, help="stop after this many frames")
    results.add_argument("--timings", action="store_true", help="show how long each stage takes")
    results.add_argument("--cache", type=Path, metavar="FOLDER", help="keep compiled shaders there")
    return result


@ending_in_a_sentence()
def run(
    arguments: argparse.Namespace,
    make: Callable[[App], FrameHandler],
    source: Source | Callable[[], GpuSource] | None = None,
    scale: int = 1,
) -> None:
    """Show the frames as `make` draws them, enlarged by `scale`, and print the timings."""
    require_inputs_kept(arguments, [arguments.output])
    options = ShowOptions(
        title="gles_delegate",
        headless=arguments.headless,
        output=arguments.output,
        overlay=arguments.timings,
        frames=arguments.frames,
        cache=arguments.cache,
        scale=scale,
    )
    if source is None and arguments.gstreamer:
        source = open_source(pipeline=arguments.gstreamer)
    elif source is None:
        picture = arguments.picture
        video = arguments.video
        camera = arguments.camera
        source = open_source(picture, video, camera, repeat=not arguments.headless)
    app = show(make, source, options)
    if app.counts.most:
        print(app.counts)
    print(f"milliseconds: {app.timings}")
    if arguments.output:
        print(arguments.output)


@ending_in_a_sentence()
def bundle(arguments: argparse.Namespace, kind: str) -> Path | dict[str, Path]:
    """A bundle, or the two networks of one, for a "face", "hand" or "pose" landmarker."""
    if [model.suffix for model in arguments.models] == [".task"]:
        return arguments.models[0]
    if len(arguments.models) != 2:
        found = ", ".join(map(str, arguments.models))
        raise ValueError(f"expected a bundle (.task) or two networks, found {found}")
    names = (f"{kind}_detector.tflite", f"{kind}_landmarks_detector.tflite")
    return dict(zip(names, arguments.models, strict=True))
