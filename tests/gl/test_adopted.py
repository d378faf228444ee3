"""Inside an app that draws with OpenGL: textures in, textures out, and a picture left alone."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import c_uint, c_void_p
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import glcontext
import moderngl
import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_apps.live.painter import new_texture
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.current import _nothing_current, current_handle, current_loader
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libglx import GlxBinding
from gles_delegate.gl.texture import Sampler
from tests.conftest import Require
from tests.gl.test_binding import PICTURE, negated
from tests.gl.test_delegate import desktop_app, es_app, stir
from tests.support.small import allocated, check
from tests.support.state import State

pytestmark = pytest.mark.mesa

VERTEX = """#version {version}
in vec2 corner;
out vec2 place;
void main() {{ place = corner * 0.5 + 0.5; gl_Position = vec4(corner, 0.0, 1.0); }}
"""
FRAGMENT = """#version {version}
precision highp float;
uniform sampler2D picture;
in vec2 place;
out vec4 color;
void main() {{ color = texture(picture, place) * vec4(1.0, 0.5, 0.25, 0.75); }}
"""


class Scene:
    """A blended quad with a picture on unit 2, drawn into its own framebuffer."""

    def __init__(self, ctx: moderngl.Context, version: str) -> None:
        self.ctx = ctx
        code = {"vertex_shader": VERTEX, "fragment_shader": FRAGMENT}
        self.program = ctx.program(**{k: v.format(version=version) for k, v in code.items()})
        corners = np.array([-1, -1, 1, -1, -0.9, 1, 0.8, 0.9], np.float32)
        self.quad = ctx.vertex_array(self.program, ctx.buffer(corners), "corner")
        self.target = ctx.renderbuffer((32, 24), 4)
        self.framebuffer = ctx.framebuffer([self.target])
        self.picture = ctx.texture((44, 30), 4, PICTURE.tobytes())
        self.mask = ctx.texture((44, 30), 4, bytes(PICTURE.nbytes))
        self.picture.use(2)
        self.program["picture"] = 2
        ctx.enable_only(moderngl.BLEND)
        self.framebuffer.use()
        self.framebuffer.clear(0.25, 0.5, 0.75, 1.0)

    def draw(self) -> NDArray[np.uint8]:
        """Draw over what is there; the state that it draws by was set long before."""
        self.quad.render(moderngl.TRIANGLE_STRIP)
        return np.frombuffer(self.framebuffer.read(components=4), np.uint8)


@pytest.fixture(params=[(es_app, "310 es"), (desktop_app, "430")], ids=["ES", "desktop"])
def scene(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Scene]]:
    make, version = request.param
    glcontext, ctx = make()
    with glcontext:
        yield glcontext, Scene(ctx, version)
    ctx.release()


def read(ctx: moderngl.Context, texture: moderngl.Texture) -> NDArray[np.uint8]:
    framebuffer = ctx.framebuffer([texture])
    return np.frombuffer(framebuffer.read(components=4), np.uint8)


def copying(delegate: gd.GpuDelegate, source: Any, target: Any) -> gd.Interpreter:
    """A network that copies a texture of the size of `PICTURE` to another."""
    interpreter = allocated(delegate, negated((1, *PICTURE.shape)))
    transform = gd.ImageTransform(channels="rgba", mean=0, std=-255)
    delegate.bind_texture_to_tensor(0, source, transform=transform)
    delegate.bind_texture_to_tensor(1, target)
    return interpreter


@pytest.mark.parametrize("adopt", [True, False])
def test_a_scene_is_drawn_the_same_around_a_run(adopt: bool, scene: tuple[Any, Scene]) -> None:
    glcontext, app = scene
    if not (adopt or isinstance(glcontext, gd.EglContext)):
        pytest.skip("glcontext's own contexts can only be adopted")
    state = State(glcontext.load)
    with gd.GpuDelegate(context=app.ctx if adopt else glcontext) as delegate:
        interpreter = copying(delegate, app.picture, app.mask)
        drawn = []
        for run in (False, True):
            app.framebuffer.clear(0.25, 0.5, 0.75, 1.0)
            pictures = [app.draw()]
            before = state.read()
            if run:
                interpreter.invoke()
                interpreter.invoke_async()
                assert state.read() == before
            drawn.append([*pictures, app.draw()])
        np.testing.assert_array_equal(drawn[1], drawn[0])
        assert np.ptp(drawn[0][1]) > 100
        np.testing.assert_array_equal(read(app.ctx, app.mask), PICTURE.ravel())


@pytest.mark.parametrize("way", ["adopted", "current", "given"])
def test_all_state_is_put_back_with_textures_and_buffers(
    way: str, scene: tuple[Any, Scene]
) -> None:
    glcontext, app = scene
    if way == "given" and not isinstance(glcontext, gd.EglContext):
        pytest.skip("glcontext's own contexts can only be adopted")
    ctx, gl, state = app.ctx, Functions(glcontext.load), State(glcontext.load)
    planes = [ctx.texture(size, 1, bytes(size[0] * size[1])) for size in ((8, 6), (4, 3), (4, 3))]
    mask, target = ctx.texture((8, 6), 4), ctx.buffer(reserve=8 * 6 * 3 * 4 + 4)
    alive = stir(ctx, gl)
    samplers = [Sampler(gl) for _ in range(4)]
    for unit, sampler in enumerate(samplers):
        alive[9 + unit].use(unit)
        gl.glBindSampler(unit, sampler.name)
    gl.glActiveTexture(gl_names.TEXTURE0 + 1)
    for i, name in enumerate(gl_names.UNPACK_STATE):
        gl.glPixelStorei(name, 8 if i == 0 else 3 + i)
    gl.glBindBuffer(gl_names.PIXEL_UNPACK_BUFFER, alive[3].glo)
    before, objects = state.read(), state.objects()
    assert before[hex(gl_names.CURRENT_PROGRAM)][0] > 0
    delegate = gd.GpuDelegate(context={"adopted": ctx, "current": way, "given": glcontext}[way])
    interpreter = gd.Interpreter(
        model_content=negated((1, 6, 8, 3)), experimental_delegates=[delegate]
    )
    for bind in (
        lambda: delegate.bind_texture_to_tensor(0, planes),
        interpreter.allocate_tensors,
        interpreter.invoke,
        lambda: delegate.bind_texture_to_tensor(1, mask),
        interpreter.invoke,
        lambda: delegate.bind_buffer_to_tensor(1, target, offset=4, dtype="float16"),
        interpreter.invoke,
        lambda: interpreter.get_tensor(1),
        lambda: interpreter.invoke_async().wait(),
        delegate.close,
    ):
        bind()
        assert state.read() == before
    assert state.objects() == objects


def test_an_apps_settings_for_uploads_do_not_shift_the_pixels(scene: tuple[Any, Scene]) -> None:
    glcontext, app = scene
    gl = Functions(glcontext.load)
    with gd.GpuDelegate(context=app.ctx) as delegate:
        interpreter = allocated(delegate, negated((1, 30, 44, 4)))
        delegate.bind_texture_to_tensor(1, app.mask)
        interpreter.set_tensor(0, -PICTURE[np.newaxis].astype(np.float32) / 255)
        for name, value in zip(gl_names.UNPACK_STATE, (8, 50, 2, 3), strict=True):
            gl.glPixelStorei(name, value)
        interpreter.invoke()
        np.testing.assert_array_equal(read(app.ctx, app.mask), PICTURE.ravel())


def run_in_glx() -> None:
    """An app on GLX: its context is adopted."""
    ctx = moderngl.create_standalone_context(require=430)
    handle, load = current_handle(), current_loader()
    assert handle
    assert not current_context()
    with pytest.raises(gd.ContextError, match=r"found a GLX context, .*EGL_CONTEXT_API"):
        gd.EglContext(share="current")
    app, state = Scene(ctx, "430"), State(load)
    with gd.GpuDelegate(context=ctx) as delegate:
        interpreter = copying(delegate, app.picture, app.mask)
        before = state.read()
        interpreter.invoke()
        assert state.read() == before
        np.testing.assert_array_equal(read(ctx, app.mask), PICTURE.ravel())
    for own_thread in (False, True):
        options = gd.GpuDelegateOptions(own_thread=own_thread)
        refused = pytest.raises(gd.WrongContextError, match="a GLX context cannot share with EGL")
        with gd.GpuDelegate(options) as delegate, refused:
            copying(delegate, app.picture, app.mask)


def run_beside_glx() -> None:
    """An app on GLX draws the same around the runs of delegates with their own contexts."""
    devices = gd.list_devices()
    ctx = moderngl.create_standalone_context(require=430)
    handle = current_handle()
    assert handle
    assert gd.list_devices() == devices
    app, state = Scene(ctx, "430"), State(current_loader())
    drawn = [app.draw(), app.draw()]
    with gd.EglContext() as egl:
        assert egl.is_current
        with gd.EglContext(share=egl) as shared:
            assert shared.is_current
        assert egl.is_current
    assert current_handle() == handle

    def progress(done: int, total: int) -> None:
        with ctx:
            assert current_handle() == handle

    delegates = [
        gd.GpuDelegate(progress=progress),
        gd.GpuDelegate(context=egl),
        gd.GpuDelegate(context=shared),
        gd.GpuDelegate(gd.GpuDelegateOptions(device_index=0)),
        gd.GpuDelegate(context=ctx),
    ]
    before = state.read()
    interpreters = [allocated(delegate) for delegate in delegates]
    for _ in "12":
        for interpreter in interpreters:
            check(interpreter)
            interpreter.invoke_async().wait()
            assert current_handle() == handle
            assert state.read() == before
    for delegate in delegates:
        delegate.close()
    app.framebuffer.clear(0.25, 0.5, 0.75, 1.0)
    np.testing.assert_array_equal([app.draw(), app.draw()], drawn)


def run_before_glx() -> None:
    """A delegate that is older than the GLX context of its thread, and outlives it."""
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        check(interpreter)
        app = glcontext.default_backend()(mode="standalone", glversion=430)
        with app:
            handle = current_handle()
            assert handle
            check(interpreter)
            assert current_handle() == handle
            with pytest.raises(ZeroDivisionError), delegate.gpu.guard():
                _ = 1 / 0
            assert current_handle() == handle
            glx = GlxBinding.of_this_thread()
            assert glx
            glx.release()
            assert not current_handle()
            with pytest.raises(gd.GLError, match="cannot be made current"):
                replace(glx, glx=Mock(glXMakeContextCurrent=lambda *_: 0)).restore()
            glx.restore()
        app.release()
        check(interpreter)
        glcontext.default_backend()(mode="standalone", glversion=430).__enter__()
        glx = GlxBinding.of_this_thread()
        assert glx
        glx.glx.glXDestroyContext(c_void_p(glx.display), c_void_p(glx.context))
        assert current_handle() == glx.context
        check(interpreter)
        assert not current_handle()


def run_in_glx_without_moderngl() -> None:
    """An app on GLX that has only glcontext, or not even that."""
    first, second = (glcontext.default_backend()(mode="standalone", glversion=430) for _ in "12")
    with first:
        handle, state = current_handle(), State(first.load)
        assert handle
        assert not current_context()
        before = state.read()
        with gd.GpuDelegate(context="current") as delegate:
            interpreter = allocated(delegate)
            check(interpreter)
            assert state.read() == before
            with second, pytest.raises(gd.WrongContextError, match="must be current"):
                interpreter.invoke()
            assert current_handle() == handle
            check(interpreter)
        sys.modules["glcontext"] = None  # type: ignore[assignment]
        with pytest.raises(gd.ContextError, match=r"GLX context.*pip install glcontext.*EGL"):
            allocated(gd.GpuDelegate(context="current"))


def run_with_glx_and_egl() -> None:
    """A moderngl.Context on GLX or EGL is not taken for another that is current."""
    on_glx = [moderngl.create_standalone_context(require=430) for _ in range(2)]
    with _nothing_current():
        contexts = [*on_glx, es_app()[1], desktop_app()[1]]
        for current, other in permutations(contexts, 2):
            with current:
                handle = current_handle()
                assert handle
                with pytest.raises(gd.WrongContextError, match="found another context"):
                    allocated(gd.GpuDelegate(context=other))
                assert current_handle() == handle
                with gd.GpuDelegate(context=current) as delegate:
                    check(allocated(delegate))
                assert current_handle() == handle
            assert not current_handle()
    with gd.GpuDelegate(context=on_glx[1]) as delegate:  # the last one made is current
        check(allocated(delegate))
    # moderngl cannot make this one current, and whatever context is counts as it.
    with on_glx[0]:
        moderngl.init_context()
        with gd.GpuDelegate(context=moderngl.get_context()) as delegate:
            check(allocated(delegate))


@pytest.mark.parametrize(
    "app",
    [run_in_glx, run_in_glx_without_moderngl, run_with_glx_and_egl, run_beside_glx, run_before_glx],
    ids=lambda f: f.__name__,
)
def test_in_an_app_on_glx(app: Callable[[], None], require: Require) -> None:
    if shutil.which("xvfb-run") is None:
        require("x11", "there is no xvfb-run to start an X server with")
    code = f"from tests.gl.test_adopted import {app.__name__}; {app.__name__}()"
    result = subprocess.run(
        ["xvfb-run", "-a", sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_only_an_egl_context_can_be_shared_with() -> None:
    _, ctx = es_app()
    with pytest.raises(TypeError, match=r"an EglContext.*GLX.*GpuDelegate\(context=ctx\)"):
        gd.EglContext(share=ctx)  # type: ignore[arg-type]
    ctx.release()


def test_a_shared_context_sees_the_apps_textures() -> None:
    egl, ctx = es_app()
    shared = gd.EglContext(share=egl)
    with egl:
        source = ctx.texture((44, 30), 4, PICTURE.tobytes())
        target = ctx.texture((44, 30), 4)
        with gd.GpuDelegate(context=shared) as delegate:
            copying(delegate, source, target).invoke_async().wait_on_gpu()
            np.testing.assert_array_equal(read(ctx, target), PICTURE.ravel())
    shared.release()
    ctx.release()


def bind_texture(gl: Functions, name: int) -> None:
    gl.glActiveTexture(gl_names.TEXTURE0)
    gl.glBindTexture(gl_names.TEXTURE_2D, name)


def bind_block(gl: Functions, name: int) -> None:
    gl.glBindBuffer(gl_names.SHADER_STORAGE_BUFFER, name)
    gl.glBufferData(gl_names.SHADER_STORAGE_BUFFER, 64, None, gl_names.STATIC_DRAW)
    gl.glBindBufferRange(gl_names.SHADER_STORAGE_BUFFER, 0, name, 0, 32)


def bind_image(gl: Functions, name: int) -> None:
    bind_texture(gl, name)
    gl.glTexStorage2D(gl_names.TEXTURE_2D, 1, gl_names.RGBA8, 4, 4)
    gl.glBindTexture(gl_names.TEXTURE_2D, 0)
    gl.glBindImageTexture(0, name, 0, 0, 0, gl_names.WRITE_ONLY, gl_names.RGBA8)


BOUND: dict[str, tuple[str, Callable[[Functions, int], object]]] = {
    "texture": ("Textures", bind_texture),
    "sampler": ("Samplers", lambda gl, name: gl.glBindSampler(0, name)),
    "image": ("Textures", bind_image),
    "storage block": ("Buffers", bind_block),
    "array buffer": ("Buffers", lambda gl, name: gl.glBindBuffer(gl_names.ARRAY_BUFFER, name)),
    "unpack buffer": (
        "Buffers",
        lambda gl, name: gl.glBindBuffer(gl_names.PIXEL_UNPACK_BUFFER, name),
    ),
}


@pytest.mark.parametrize("what", BOUND)
def test_what_another_context_deleted_is_not_bound_again(what: str) -> None:
    """Loaders of GTK, Qt and SDL share the app's objects."""
    kind, bind = BOUND[what]
    with gd.EglContext() as context, gd.EglContext(share=context) as beside, context:
        gl = Functions(context.load)
        texture, name = new_texture(PICTURE), gl.generate(kind)
        with gd.GpuDelegate(context="current") as delegate:
            interpreter = allocated(delegate, negated((1, *PICTURE.shape)))
            transform = gd.ImageTransform(channels="rgba", mean=0, std=-255)
            delegate.bind_texture_to_tensor(0, texture, transform=transform)
            interpreter.invoke()
            expected = interpreter.get_tensor(1)
            bind(gl, name)
            with beside:
                getattr(Functions(beside.load), f"glDelete{kind}")(1, c_uint(name))
            interpreter.invoke()
            np.testing.assert_array_equal(interpreter.get_tensor(1), expected)
            assert not gl.forget_errors()
        texture.release()


@pytest.mark.parametrize(("units", "images", "blocks"), [(4, 4, 4), (16, 5, 6)])
def test_bindings_that_are_saved(
    units: int, images: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that programs use, and no more than the device has."""
    integer, saved = Functions.integer, set[tuple[int, int | None]]()
    limits = gl_names.MAX_COMPUTE_IMAGE_UNIFORMS, gl_names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS
    kinds = gl_names.IMAGE_BINDING[0], gl_names.SHADER_STORAGE_BUFFER_BINDING

    def noted(self: Functions, name: int, index: int | None = None) -> int:
        if name in kinds and index is not None:
            saved.add((name, index))
        return units if name in limits else integer(self, name, index)

    monkeypatch.setattr(Functions, "integer", noted)
    egl, _ = es_app()
    with egl, gd.GpuDelegate(context="current") as delegate:
        check(allocated(delegate))
    egl.release()
    expected = {
        (name, i) for name, n in zip(kinds, (images, blocks), strict=True) for i in range(n)
    }
    assert saved == expected
