"""The sanitizer finds dispatches that write or read what they should not, and says so."""

import re
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.profiles import UNKNOWN
from gles_delegate.gl.context import GpuContext
from gles_delegate.runtime.sanitizer import StrayAccess
from gles_delegate.verification.cases import VerificationCase
from gles_delegate.verification.check import Form, verified
from tests.support.app import App
from tests.support.guards import Guard, guards
from tests.support.lies import lying_driver
from tests.support.oracle import complete, in_ours, run, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder


def joined(s: Sketch) -> int:
    """An input is copied beside a part that is computed in its place."""
    x, y = s.feed((1, 1, 1, 8)), s.feed((1, 1, 1, 32))
    return s.op("CONCATENATION", [x, s.op("RELU", [y])], axis=3)


def pooled(s: Sketch) -> int:
    window = dict(stride_h=2, stride_w=2, filter_height=2, filter_width=2, padding="VALID")
    return s.op("MAX_POOL_2D", [s.feed((1, 6, 6, 5))], **window)


def multiplied(s: Sketch) -> int:
    weights = s.constant(s.normal((10, 1, 1, 3)))
    operands = [s.feed((1, 32, 32, 3)), weights, s.constant(s.normal((10,)))]
    return s.op("CONV_2D", operands, stride_h=1, stride_w=1)


def normalized(s: Sketch) -> int:
    return s.op("L2_NORMALIZATION", [s.feed((1, 3, 5, 6))])


def of_zeros(s: Sketch) -> int:
    return s.op("LOGISTIC", [s.feed((1, 3, 5, 6))])


LIES: dict[str, tuple[Any, str, str, str]] = {
    "past a part": (
        joined,
        "channel >= REGION_CHANNELS) return",
        "slice >= OUT_SLICES) return",
        "writes elsewhere",
    ),
    "past the last pixel": (
        pooled,
        "pixel >= OUT_PIXELS || slice >= OUT_SLICES) return",
        "slice >= OUT_SLICES) return",
        "writes elsewhere",
    ),
    "past the last slice": (
        multiplied,
        "< OUT_SLICES) store(",
        "< OUT_SLICES + 8) store(",
        "writes elsewhere",
    ),
    "no last pixel": (
        pooled,
        "if (pixel >= OUT_PIXELS ||",
        "if (pixel >= OUT_PIXELS - 1 ||",
        "leaves bytes of its output unwritten",
    ),
    "no last lane": (
        normalized,
        "PUT(slice * OUT_PIXELS + pixel, v)",
        "OUT_TEXEL(slice * OUT_PIXELS + pixel).xyz = v.xyz",
        "leaves bytes of its output unwritten",
    ),
    "the next pixel": (
        normalized,
        "LOAD(X, s * OUT_PIXELS + pixel)",
        "LOAD(X, s * OUT_PIXELS + pixel + 1)",
        "reads more than its operands",
    ),
    "padding": (
        of_zeros,
        "lanes_below(OUT_CHANNELS - 4 * slice)",
        "bvec4(true)",
        "fills lanes past the last channel",
    ),
}


def sketched(build: Any) -> tuple[bytes, list[Any]]:
    s = Sketch(np.random.default_rng(0))
    return complete(s, [build(s)]), s.feeds


@pytest.mark.parametrize(("build", "old", "new", "fault"), LIES.values(), ids=LIES)
def test_wrong_lines_show(build: Any, old: str, new: str, fault: str, gpu: GpuContext) -> None:
    content, feeds = sketched(build)
    case = VerificationCase(
        "", "", True, False, 1, content, tuple(feeds), tuple(run_litert(content, feeds))
    )
    # A buffer texture ends at its last texel, whatever lies behind that.
    form = Form(replace(gpu.limits, profile=UNKNOWN, buffer_texels=0, store_loops=False))
    with gpu.guard():
        assert [result.failure for result in verified(gpu, [case], [form])] == [""]
        with lying_driver(old, new):
            (result,) = verified(gpu, [case], [form])
    assert fault in result.failure
    assert not result.passed


def test_results_stay() -> None:
    content, feeds = sketched(joined)
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        (before,) = run(interpreter, feeds)
        assert delegate.bound.sanitize() == []
        (index,) = (detail["index"] for detail in interpreter.get_output_details())
        np.testing.assert_array_equal(interpreter.get_tensor(index), before)


def test_bound_buffers_are_read_and_not_written() -> None:
    content, feeds = sketched(joined)
    with closing(App(model=content)) as app:
        interpreter = in_ours(app.delegate, content)
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        for detail, feed in zip(inputs, feeds, strict=True):
            app.delegate.bind_buffer_to_tensor(detail["index"], app.buffer(feed.tobytes()))
        result = app.buffer(bytes(160))
        app.delegate.bind_buffer_to_tensor(outputs[0]["index"], result)
        interpreter.invoke()
        before = app.read(result, "float32")
        assert app.delegate.bound.sanitize() == []
        np.testing.assert_array_equal(app.read(result, "float32"), before)


def test_a_trespass_names_the_dispatch() -> None:
    content, feeds = sketched(joined)
    # The delegate's own contexts have chains, which have no surplus invocations.
    with lying_driver(*LIES["past a part"][1:3]), closing(App(model=content)) as app:
        run(in_ours(app.delegate, content), feeds)
        (stray, *_) = app.delegate.bound.sanitize()
    assert isinstance(stray, StrayAccess)
    assert re.search(r"= view\(.* writes elsewhere: \d+ bytes, the first is byte ", str(stray))


def of_pictures(size: tuple[int, ...]) -> list[StrayAccess]:
    """Accesses to others' bytes where a texture is the input, and one the output, too."""
    builder = ModelBuilder()
    content = builder.build([builder.op("RELU", [builder.input(size)], [size])])
    picture = np.zeros((7, size[2] if size[3] == 3 else size[3], 3), np.uint8)
    with closing(App(model=content)) as app:
        interpreter = in_ours(app.delegate, content)
        (x,), (y,) = interpreter.get_input_details(), interpreter.get_output_details()
        app.delegate.bind_texture_to_tensor(x["index"], app.texture(picture))
        if size[3] == 3:
            target = app.texture(np.zeros((*size[1:3], 4), np.uint8))
            app.delegate.bind_texture_to_tensor(y["index"], target)
        interpreter.invoke()
        return app.delegate.bound.sanitize()


@pytest.mark.parametrize("guard", [g for g in guards() if g.file.startswith("image_")], ids=str)
def test_guards_of_pictures_are_needed(guard: Guard) -> None:
    """With the channels last, and with them first."""
    sizes = (1, 7, 3, 3), (1, 3, 7, 18)
    assert [*map(of_pictures, sizes)] == [[], []]
    with guard.taken_out():
        assert any(map(of_pictures, sizes))
