"""The command line of the examples: where frames come from, and where pictures go."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from imaging import ending_in_a_sentence, positive

from gles_delegate.live import App, Camera, Picture, Seer, ShowOptions, Source, Video, show


def parser(text: str, *, frames: bool = True, **models: str) -> argparse.ArgumentParser:
    """A command line for frames.

    Args:
        text: The example's docstring; its first line is the description.
        frames: Take pictures, videos and cameras; otherwise the example has a source of its own.
        models: The example's networks, each with what it is.
    """
    result = argparse.ArgumentParser(
        description=text.splitlines()[0],
        epilog="keys in the window: Q quits, G changes between GPU and CPU, T shows the timings",
    )
    for name, what in models.items():
        result.add_argument(name, type=Path, help=what)
    if frames:
        group = result.add_argument_group("frames").add_mutually_exclusive_group(required=True)
        group.add_argument("--picture", type=Path, help="a picture file")
        group.add_argument("--video", type=Path, help="a video file")
        group.add_argument(
            "--camera",
            metavar="N",
            help="/dev/videoN, or FORMAT:NAME of FFmpeg's devices, such as x11grab::0",
        )
    results = result.add_argument_group("results")
    results.add_argument("--headless", action="store_true", help="no window")
    results.add_argument("--output", type=Path, help="a video, or a picture of the last frame")
    results.add_argument("--frames", type=positive, help="end after as many")
    results.add_argument("--cpu", action="store_true", help="networks run on LiteRT's CPU")
    results.add_argument("--timings", action="store_true", help="show how long each stage takes")
    results.add_argument("--cache", type=Path, metavar="FOLDER", help="keep compiled shaders there")
    return result


@ending_in_a_sentence()
def run(
    arguments: argparse.Namespace, make: Callable[[App], Seer], source: Source | None = None
) -> None:
    """Show what `make` makes of frames, and print how long it took."""
    options = ShowOptions(
        title="gles_delegate",
        headless=arguments.headless,
        output=arguments.output,
        cpu=arguments.cpu,
        overlay=arguments.timings,
        frames=arguments.frames,
        cache=arguments.cache,
    )
    app = show(make, source or _source(arguments), options)
    where = "the GPU" if app.on_gpu else "LiteRT's CPU"
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in app.timings.milliseconds.items())
    print(f"networks on {where}; milliseconds: {stages}")
    if arguments.output:
        print(arguments.output)


def _source(arguments: argparse.Namespace) -> Source:
    if arguments.picture:
        return Picture(arguments.picture)
    if arguments.video:
        return Video(arguments.video, repeat=not arguments.headless)
    return Camera(arguments.camera)
