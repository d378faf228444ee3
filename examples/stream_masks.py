"""The masks of a segmentation network, from a GStreamer pipeline into another, all on the GPU.

    python examples/stream_masks.py selfie_segmenter.tflite "filesrc location=me.mp4 ! decodebin" \\
        "openh264enc ! h264parse ! mp4mux ! filesink location=masks.mp4"

Frames are decoded to textures, the network samples them, and writes its masks to textures that are
encoded, or streamed: "... ! rtph264pay ! udpsink host=192.0.2.1 port=5000".
"""

from __future__ import annotations

import argparse
from pathlib import Path

from imaging import ending_in_a_sentence, require_inputs_kept, single

import gles_delegate as gd
from gles_apps.live import GStreamer, GStreamerSink
from gles_apps.live.gstreamer import locations
from gles_apps.vision import palette


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a segmentation network")
    parser.add_argument("source", help="elements up to raw video")
    parser.add_argument("sink", help="elements from raw video on")
    arguments = parser.parse_args()
    require_inputs_kept(arguments, locations(arguments.sink))
    with GStreamer(arguments.source) as camera:
        delegate = gd.GpuDelegate(context=camera.context)
        network = gd.Interpreter(arguments.model, experimental_delegates=[delegate])
        picture, scores = single(network)
        _, height, width, classes = scores["shape"].tolist()
        colors = [(0, 0, 0, 255), *((*color, 255) for color in palette(max(classes, 2))[1:])]
        output = gd.ImageOutput(palette=colors)
        transform = gd.ImageTransform.for_input(network, picture["index"])
        bind = delegate.bind_texture_to_tensor
        count = 0
        with delegate, GStreamerSink(arguments.sink, camera, (height, width)) as sink:
            for frame in camera:
                mask = sink.picture()
                bind(picture["index"], frame.textures, transform=frame.matched(transform))
                bind(scores["index"], mask.texture, transform=output)
                network.allocate_tensors()
                run = network.invoke_async(wait_for=frame.ready)
                frame.close(after=run)
                mask.push(run)
                count += 1
            sink.finish()
    print(f"{count} masks of {width}x{height}")


if __name__ == "__main__":
    main()
