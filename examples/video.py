"""Draw a network's mask over a video file, on the GPU, without a window.

python examples/video.py INPUT.mp4 OUTPUT.mp4 [--model FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import av
import moderngl
import overlay
from imaging import ending_in_a_sentence
from PIL import Image
from tqdm import tqdm

import gles_delegate as gd


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", type=Path, help="a video file")
    parser.add_argument("output", type=Path, help="the file to write, H.264 in MP4 for .mp4")
    parser.add_argument("--model", type=Path, default=overlay.MODEL, help="segmentation network")
    arguments = parser.parse_args()

    with gd.EglContext() as egl:
        convert(moderngl.create_context(context=egl, require=310), arguments)


def convert(ctx: moderngl.Context, arguments: argparse.Namespace) -> None:
    """Every picture of the input, with its mask, into the output."""
    source = overlay.VideoFile(ctx, arguments.input, repeat=False)
    width, height = source.texture.size
    drawn = overlay.Overlay(ctx, source, arguments.model)
    target = ctx.framebuffer([ctx.texture((width, height), 4)])
    try:
        container = av.open(arguments.output, "w")
    except (av.FFmpegError, ValueError) as error:
        raise SystemExit(f"cannot write the video {arguments.output}: {error}") from error
    with container, tqdm(total=source.count or None, unit="frame") as bar:
        stream = container.add_stream("h264", source.rate)
        stream.width, stream.height = width, height
        while drawn.draw(target):
            picture = overlay.read_pixels(target).transpose(Image.Transpose.FLIP_TOP_BOTTOM)
            container.mux(stream.encode(av.VideoFrame.from_image(picture)))
            bar.update()
        container.mux(stream.encode())
    drawn.close()


if __name__ == "__main__":
    main()
