"""Code shared by the examples: the command line, and tracking with two networks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from imaging import ending_in_a_sentence, positive

from gles_delegate.live import App, Frame, Seer, ShowOptions, Source, open_source, show
from gles_delegate.vision import (
    Detector,
    LandmarkNetwork,
    Landmarks,
    Tracker,
    find_detector,
    read_detections,
    ssd_anchors,
)


def parser(text: str, *, frames: bool = True, **models: str) -> argparse.ArgumentParser:
    """Build the command line of an example that reads frames.

    Args:
        text: The example's docstring; its first line is the description.
        frames: Accept pictures, videos and cameras; if False, the example has its own source.
        models: The example's networks: argument names and help texts.
    """
    result = argparse.ArgumentParser(
        description=text.splitlines()[0],
        epilog="keys in the window: Q quits, G switches between GPU and CPU, T shows timings",
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
    results.add_argument("--frames", type=positive, help="stop after this many frames")
    results.add_argument("--cpu", action="store_true", help="run the networks on LiteRT's CPU")
    results.add_argument("--timings", action="store_true", help="show how long each stage takes")
    results.add_argument("--cache", type=Path, metavar="FOLDER", help="keep compiled shaders there")
    return result


@ending_in_a_sentence()
def run(
    arguments: argparse.Namespace,
    make: Callable[[App], Seer],
    source: Source | None = None,
    scale: int = 1,
) -> None:
    """Show the frames as `make` draws them, enlarged by `scale`, and print the timings."""
    options = ShowOptions(
        title="gles_delegate",
        headless=arguments.headless,
        output=arguments.output,
        cpu=arguments.cpu,
        overlay=arguments.timings,
        frames=arguments.frames,
        cache=arguments.cache,
        scale=scale,
    )
    if source is None:
        picture, video, camera = arguments.picture, arguments.video, arguments.camera
        source = open_source(picture, video, camera, repeat=not arguments.headless)
    app = show(make, source, options)
    if app.findings.most:
        print(app.findings)
    where = "the GPU" if app.on_gpu else "LiteRT's CPU"
    print(f"networks on {where}; milliseconds: {app.timings}")
    if arguments.output:
        print(arguments.output)


class Follower:
    """Tracks objects: a detector finds them, a landmark network follows them.

    Args:
        networks: The app.
        detector: The model file of one of MediaPipe's detectors.
        landmarks: The model file of the landmark network.
        kind: The preset for the landmark network.
        finders: The presets that the detector may match.
        most: The maximum number of objects. The detector runs while there are fewer.
    """

    def __init__(
        self,
        networks: App,
        detector: Path,
        landmarks: Path,
        kind: LandmarkNetwork,
        finders: tuple[Detector, ...],
        most: int,
    ) -> None:
        self._detector, self._landmarks = networks.network(detector), networks.network(landmarks)
        outputs = [details["shape"].tolist() for details in self._detector.outputs]
        preset = find_detector(self._detector.inputs[0]["shape"].tolist(), outputs)
        if preset not in finders or self._landmarks.size != kind.size:
            wanted = " or ".join(str(_outputs(finder)) for finder in finders)
            raise ValueError(
                f"expected a detector with outputs {wanted} and a network of landmarks that sees "
                f"{kind.size[1]}x{kind.size[0]} pixels, found {detector} with outputs {outputs} "
                f"and {landmarks}, which sees {self._landmarks.size[1]}x{self._landmarks.size[0]}"
            )
        assert preset is not None
        self._preset, self._kind = preset, kind
        self._detector.transform = preset.transform
        self._tracker = Tracker(kind, most)
        self._seconds = 0.0

    def __call__(self, frame: Frame) -> list[Landmarks]:
        """The landmarks of each object in a frame, in pixels."""
        if self._tracker.needs_detector:
            seen = read_detections(self._detector(frame), self._preset)
            transform, size = self._preset.transform, self._detector.size
            seen = [detection.to_picture(transform, frame.size, size) for detection in seen]
            self._tracker = self._tracker.with_detections(seen, frame.size)
        results = []
        for track in self._tracker.objects:
            transform = self._kind.transform(track.region)
            landmarks = self._kind.read(self._landmarks(frame, transform))
            results.append(landmarks.to_picture(transform, frame.size, self._kind.size))
        passed, self._seconds = frame.seconds - self._seconds, frame.seconds
        self._tracker = self._tracker.with_landmarks(results, max(passed, 1e-3))
        return [track.landmarks for track in self._tracker.objects if track.landmarks]


def _outputs(detector: Detector) -> list[list[int]]:
    """The output shapes of a detector."""
    count = len(ssd_anchors(detector.anchors))
    return [[1, count, 4 + 2 * detector.key_points], [1, count, 1]]
