"""A network whose first and final programs differ on llvmpipe."""

import threading
from collections.abc import Callable
from time import monotonic, sleep

import numpy as np

from gles_delegate.gl.program import Program
from tests.support.sketch import Sketch

INPUT = np.random.default_rng(0).standard_normal((1, 24, 20, 8)).astype(np.float32)


def network(*, with_state: bool = False) -> bytes:
    """Convolutions whose first and final tiles differ; then an op with a state."""
    s = Sketch(np.random.default_rng(2))
    x = s.input(INPUT.shape)
    for depth in (16, 24, 16):
        inputs = s.tensors[x]["shape"][3]
        weights = s.constant(s.normal((depth, 3, 3, inputs), 0.2))
        options = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
        options["fused_activation_function"] = "RELU"
        shape = (*INPUT.shape[:3], depth)
        bias = s.constant(s.normal((depth,)))
        x = s.op("CONV_2D", [x, weights, bias], [shape], **options)
    if with_state:
        units = s.constant(s.normal((4, depth), 0.3)), s.constant(s.normal((4, 4), 0.3))
        state = s.tensor((1, 4), variable=True)
        pixels = s.op("RESHAPE", [x, s.constant(np.int32([1, -1, depth]))], [(1, 480, depth)])
        inputs = [pixels, *units, s.constant(s.normal((4,))), state]
        options = {"fused_activation_function": "TANH", "time_major": False}
        x = s.op("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [(1, 480, 4)], **options)
    return s.build([x])


def background_threads() -> list[threading.Thread]:
    """The threads that compile in the background."""
    return [each for each in threading.enumerate() if "upgrade" in each.name]


def wait_for_background() -> None:
    """Wait until no thread compiles in the background."""
    end = monotonic() + 120
    while background_threads():
        assert monotonic() < end, "a thread compiles without end"
        sleep(0.01)


def is_background() -> bool:
    """Whether this thread compiles in the background."""
    return threading.current_thread() in background_threads()


def slowed(finish: Callable[[Program], None], seconds: float) -> Callable[[Program], None]:
    """`Program.finish`, which takes longer in the background."""

    def slow(self: Program) -> None:
        if is_background():
            sleep(seconds)
        finish(self)

    return slow
