"""Weights that are read through textures, as on Mali."""

from collections.abc import Iterator
from typing import Any

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.profiles import MALI_G
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.texture import Sampler
from tests.gl.test_binding import PICTURE
from tests.gl.test_delegate import desktop_app, es_app, stir
from tests.support.app import App
from tests.support.force import force_limits, force_profile
from tests.support.sketch import Sketch
from tests.support.small import allocated, check, expected, run
from tests.support.state import State
from tests.support.trace import traced

pytestmark = pytest.mark.usefixtures("mali")

UPLOADS = ["glTexStorage2D", "glTexSubImage2D"]


@pytest.fixture
def mali(floor: None, monkeypatch: pytest.MonkeyPatch) -> None:
    force_profile(monkeypatch, MALI_G)


@pytest.fixture(params=[es_app, pytest.param(desktop_app, marks=pytest.mark.mesa)])
def app(request: pytest.FixtureRequest) -> Iterator[tuple[Any, moderngl.Context]]:
    glcontext, ctx = request.param()
    with glcontext:
        yield glcontext, ctx
    ctx.release()


def test_the_apps_state_is_put_back(app: tuple[Any, moderngl.Context]) -> None:
    glcontext, ctx = app
    gl, state = Functions(glcontext.load), State(glcontext.load)
    alive = stir(ctx, gl)
    # This sampler alone would make a float texture incomplete.
    sampler = Sampler(gl)
    gl.glSamplerParameteri(sampler.name, gl_names.TEXTURE_MIN_FILTER, 0x2703)
    gl.glBindSampler(0, sampler.name)
    for i, name in enumerate(gl_names.UNPACK_STATE):
        gl.glPixelStorei(name, 8 if i == 0 else 3 + i)
    gl.glBindBuffer(gl_names.PIXEL_UNPACK_BUFFER, alive[3].glo)
    before, objects = state.read(), state.objects()
    with gd.GpuDelegate(context=ctx) as delegate:
        interpreter = allocated(delegate)
        assert state.read() == before
        for _ in range(2):
            check(interpreter)
            assert state.read() == before
        assert len(state.objects()["Texture"]) == len(objects["Texture"]) + 1
    assert state.objects() == objects


@pytest.mark.parametrize("lossy", [False, True])
def test_float16_weights_are_float16_textures(lossy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options = gd.GpuDelegateOptions(precision_loss_allowed=lossy)
    with traced(monkeypatch) as calls, gd.GpuDelegate(options) as delegate:
        actual = run(allocated(delegate))
        assert [call for call in calls if call in UPLOADS] == UPLOADS
    np.testing.assert_allclose(actual, expected(), rtol=1e-2 if lossy else 1e-5, atol=1e-2)


def test_a_picture_goes_before_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are sampled in texture unit 0."""
    s = Sketch(np.random.default_rng(0))
    x = s.feed((1, 30, 44, 4))
    for _ in range(2):
        inputs = [x, s.constant(s.normal((4, 3, 3, 4))), s.constant(s.normal((4,)))]
        x = s.op("CONV_2D", inputs, stride_h=1, stride_w=1)
    transform = gd.ImageTransform(channels="rgba")
    app = App()
    interpreter = app.interpreter(s.build([x]))
    x_index = interpreter.get_input_details()[0]["index"]
    by_hand = run(interpreter, transform.apply(PICTURE, PICTURE.shape[:2]))
    app.delegate.bind_texture_to_tensor(x_index, app.texture(PICTURE), transform=transform)
    for _ in range(2):
        interpreter.invoke()
        y = interpreter.get_output_details()[0]["index"]
        np.testing.assert_allclose(interpreter.get_tensor(y), by_hand, rtol=1e-3, atol=1e-3)
    app.close()


def test_weights_too_large_for_a_texture_are_in_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    force_limits(monkeypatch, texture_size=0)
    with traced(monkeypatch) as calls, gd.GpuDelegate() as delegate:
        check(allocated(delegate))
        assert not set(calls).intersection(UPLOADS)
