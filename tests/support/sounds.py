"""A network of sounds whose scores are the samples."""

import flatbuffers
import numpy as np

from tests.support.metadata import Ref, described, table, vector
from tests.support.tflite_builder import ModelBuilder

RATE, SAMPLES = 1000, 4


def sound_classifier(channels: int = 1) -> bytes:
    """Windows of 4 samples at 1000 Hz to a score for each sample of each channel; 0 channels: the
    metadata does not say how many, and there is one.
    """
    b = flatbuffers.Builder()
    content = table(b, np.uint8(4), Ref(table(b, RATE, channels)))  # AudioProperties
    inputs = vector(b, [table(b, None, None, None, Ref(content))])
    graph = table(b, None, None, Ref(inputs), Ref(vector(b, [table(b)])))
    b.Finish(table(b, None, None, None, Ref(vector(b, [graph]))), b"M001")
    builder = ModelBuilder()
    shape = (1, SAMPLES * max(channels, 1))
    y = builder.op("RELU", [builder.input(shape)], [shape])
    return described(builder.model([y]), bytes(b.Output()))
