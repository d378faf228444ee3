"""``gles-delegate watch``: a model on frames of a camera, a video or a picture, in a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gles_apps.cli import options
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.vision.opening import TaskModel, TaskSettings
from gles_delegate import DelegateError
from gles_delegate.cli import common
from gles_delegate.model.labels import read_labels

if TYPE_CHECKING:
    from gles_apps.live import App, FrameHandler


@common.command
@common.model_argument
@click.option(
    "--camera",
    metavar="N",
    help="/dev/videoN, or FORMAT:NAME for an FFmpeg device, such as x11grab::0.",
)
@click.option(
    "--gstreamer",
    metavar="PIPELINE",
    help="GStreamer's elements up to raw video, such as 'v4l2src ! decodebin'.",
)
@click.option("--video", type=common.FILE, metavar="FILE")
@click.option("--picture", type=common.FILE, metavar="FILE")
@options.task_option
@options.kind_option
@options.labels_option
@options.threshold_option
@click.option("--track", is_flag=True, help="Number a detector's objects while they are seen.")
@common.scaling_options
@options.antialias_option
@click.option("--headless", is_flag=True, help="No window.")
@click.option(
    "--output", type=common.PATH, metavar="FILE", help="A video, or a picture of the last frame."
)
@click.option("--frames", type=click.IntRange(1), help="Stop after this many.")
@click.option("--timings", "overlay", is_flag=True, help="Show how long each stage takes.")
@common.cache_option
@common.json_option
def watch(
    model: Path,
    camera: str | None,
    gstreamer: str | None,
    video: Path | None,
    picture: Path | None,
    task: str | None,
    kind: str | None,
    labels: Path | None,
    threshold: float | None,
    track: bool,
    mean: float | None,
    std: float | None,
    as_json: bool,
    **show_options: Any,
) -> None:
    """Show what MODEL finds in a camera's or video's frames.

    A picture is a video of one frame.

    MODEL may be a bundle of face, hand, gesture, pose or holistic.

    Keys in the window: Q quits, T shows the timings.
    """
    if sum(option is not None for option in (picture, video, camera, gstreamer)) != 1:
        raise common.wrong_usage("expected one of --camera, --gstreamer, --video and --picture")
    common.require_other_files([show_options["output"]], [model, labels, picture, video])
    names = None if labels is None else read_labels(labels)
    try:
        from gles_apps.live import ShowOptions, open_source, show
        from gles_apps.live.tasks import task_handler

        settings = TaskSettings(task, kind, names, threshold, track=track)
        with options.naming_missing(model):
            task_model = TaskModel.of(BaseOptions(model, mean=mean, std=std), settings)
        task = task_model.required()

        def make(app: App) -> FrameHandler:
            return task_handler(app, task_model, app.base_options(mean=mean, std=std))

        title = f"gles-delegate watch {model.name}"
        chosen = ShowOptions(title=title, quiet=as_json, **show_options)
        source: Any = open_source(pipeline=gstreamer) if gstreamer is not None else None
        source = source or open_source(picture, video, camera, repeat=not chosen.headless)
        app = show(make, source, chosen)
    except ImportError as error:
        raise DelegateError(str(error)) from error
    if as_json:
        most = app.counts.most
        frames = app.counts.frames
        shown = {
            "task": task,
            "frames": app.counts.seen,
            "found": {kind: {"most": most[kind], "frames": frames[kind]} for kind in most},
            "milliseconds": app.timings.milliseconds,
            "output": str(chosen.output) if chosen.output else None,
        }
        common.print_json(shown)
        return
    if app.counts.most:
        print(app.counts)
    print(f"{task}; milliseconds: {app.timings}")
    if chosen.output:
        print(chosen.output)
