"""dma-bufs: what is refused and, with an image of EGL's own in its place, what is made of one."""

import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.gl import dmabuf
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import EglError, attributes, libegl
from tests.gl.test_binding import PICTURE, negated
from tests.gl.test_delegate import break_function
from tests.support.app import App
from tests.support.dmabufs import Dmabufs
from tests.support.small import allocated
from tests.support.state import State

_GL_TEXTURE_2D_KHR = 0x30B1


@pytest.fixture
def fd(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A descriptor that is taken for a dma-buf's."""
    monkeypatch.setattr(dmabuf, "_is_dmabuf", lambda *_: True)
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def test_no_context_is_current(fd: int) -> None:
    with pytest.raises(gd.ContextError, match="expected a current EGL context"):
        gd.import_dmabuf(fd, 4, 4, "XR24", 16)


@pytest.fixture
def no_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """EGL has no extension for dma-bufs."""
    query = libegl().eglQueryString
    monkeypatch.setattr(
        libegl(), "eglQueryString", lambda *a: query(*a).replace(b"dma_buf_import", b"nothing")
    )


@pytest.mark.usefixtures("no_imports")
@pytest.mark.parametrize("modifier", [None, 0])
def test_a_driver_without_the_extension(modifier: int | None, app: App, fd: int) -> None:
    with app.egl, pytest.raises(gd.ContextError, match="support EGL_EXT_image_dma_buf_import"):
        gd.import_dmabuf(fd, 4, 4, "XR24", 16, modifier=modifier)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "positive width, height and stride"),
        ({"stride": -4}, "positive width, height and stride"),
        ({"offset": -1}, "no negative fd or offset"),
        ({"fd": -1}, "no negative fd or offset"),
        ({"fourcc": "RGB"}, "four ASCII characters"),
    ],
)
def test_sizes_that_cannot_be(options: dict[str, Any], message: str) -> None:
    frame = {"fd": 0, "width": 4, "height": 4, "fourcc": "XR24", "stride": 16}
    with pytest.raises(ValueError, match=message):
        gd.import_dmabuf(**{**frame, **options})


def test_what_is_no_dmabuf(app: App) -> None:
    """Whatever the driver makes of it."""
    with app.egl, open(os.devnull, "rb") as null, tempfile.NamedTemporaryFile() as plain:
        for file, name in ((null, os.devnull), (plain, plain.name)):
            with pytest.raises(ValueError, match=f"expected .* dma-buf, found .* '{name}'"):
                gd.import_dmabuf(file.fileno(), 4, 4, "XR24", 16)


def test_a_descriptor_that_is_not_open(app: App) -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    with app.egl, pytest.raises(ValueError, match=f"expected .* dma-buf, found {fd}: .* Bad file"):
        gd.import_dmabuf(fd, 4, 4, "XR24", 16)


@pytest.mark.parametrize(
    ("file", "properties", "expected"),
    [
        ("/dmabuf:", "size:\t32768\ncount:\t2\nexp_name:\tsystem-heap\n", True),
        ("/dmabuf:frame", "size:\t4096\ncount:\t1\nexp_name:\tudmabuf\nname:\tframe\n", True),
        ("anon_inode:dmabuf", "", True),  # before Linux 5.3
        ("anon_inode:[eventfd]", "eventfd-count:                0\n", False),
        ("/dmabuf:", "", False),  # a plain file
        ("/memfd:anon_inode:dmabuf (deleted)", "", False),
    ],
)
def test_what_the_kernel_says_of_a_descriptor(file: str, properties: str, expected: bool) -> None:
    fdinfo = f"pos:\t0\nflags:\t04002\nmnt_id:\t9\nino:\t63107\n{properties}"
    assert dmabuf._is_dmabuf(file, fdinfo.encode()) is expected


@pytest.mark.usefixtures("no_imports")
def test_without_proc_the_check_is_the_driver_s(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_proc(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", no_proc)
    with (
        app.egl,
        open(os.devnull, "rb") as file,
        pytest.raises(gd.ContextError, match="not support EGL"),
    ):
        gd.import_dmabuf(file.fileno(), 4, 4, "XR24", 16)


@pytest.mark.mesa
def test_an_image_becomes_a_texture(app: App, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """EGL is asked for what the arguments say; another image of its stands in for the frame."""
    egl, asked = libegl(), []
    create, query = egl.eglCreateImageKHR, egl.eglQueryString
    frame = app.texture(PICTURE)

    def stand_in(display: int, context: int, target: int, buffer: int, wanted: Any) -> int:
        asked.extend([context, target, buffer, *wanted])
        handle = app.egl.handle
        return int(create(display, handle, _GL_TEXTURE_2D_KHR, frame.glo, attributes()))

    monkeypatch.setattr(egl, "eglCreateImageKHR", stand_in)
    monkeypatch.setattr(
        egl, "eglQueryString", lambda *a: query(*a) + f" {dmabuf.WITH_MODIFIERS}".encode()
    )
    interpreter = app.interpreter(negated((1, 30, 44, 4)))
    with app.egl:
        state = State(app.egl.load)
        before = state.read()
        modifier = 0x0100000000000002
        with gd.import_dmabuf(fd, 44, 30, "AB24", 192, 64, modifier) as texture:
            assert state.read() == before
            assert texture.size == (44, 30)
            transform = gd.ImageTransform(channels="rgba")
            app.delegate.bind_texture_to_tensor(0, texture, transform=transform)
            interpreter.invoke()
            name = texture.glo
            assert name in state.objects()["Texture"]
        assert name not in state.objects()["Texture"]
        texture.close()
    expected = transform.apply(PICTURE, (30, 44))
    np.testing.assert_allclose(-interpreter.get_tensor(1), expected, atol=1e-5)
    fourcc = int.from_bytes(b"AB24", "little")
    assert asked == [
        *(0, 0x3270, 0),
        *(0x3057, 44, 0x3056, 30, 0x3271, fourcc, 0x3272, fd, 0x3273, 64, 0x3274, 192),
        *(0x3443, 2, 0x3444, 0x01000000, 0x3038),
    ]


@pytest.mark.mesa
@pytest.mark.parametrize("function", ["glGenTextures", "glEGLImageTargetTexture2DOES"])
def test_an_image_that_gl_refuses_is_freed(
    function: str, app: App, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    egl = libegl()
    query, freed = egl.eglQueryString, []
    monkeypatch.setattr(egl, "eglCreateImageKHR", lambda *_: 0xBAD)
    monkeypatch.setattr(egl, "eglDestroyImageKHR", lambda *arguments: freed.append(arguments[1]))
    monkeypatch.setattr(
        egl, "eglQueryString", lambda *a: query(*a) + f" {dmabuf.EXTENSION}".encode()
    )
    break_function(function)(monkeypatch, 0)
    with app.egl:
        state = State(app.egl.load)
        before = state.objects()
        with pytest.raises(gd.GLError, match=function):
            gd.import_dmabuf(fd, 44, 30, "AB24", 192)
        assert freed == [0xBAD]
        assert state.objects() == before


@pytest.fixture
def dmabufs(app: App, monkeypatch: pytest.MonkeyPatch) -> Dmabufs:
    return Dmabufs(app, monkeypatch)


PACKED: dict[str, Any] = {"YUYV": "yuyv", "UYVY": "uyvy"}


def file_of(planes: list[NDArray[np.uint8]], stride: int) -> tuple[IO[bytes], list[int]]:
    """A file with the planes [height, width, channels] in rows of a stride, and their offsets.

    The stride is the first plane's; that of a plane of half the width and one channel is half.
    """
    file, offsets = os.fdopen(os.memfd_create("planes"), "w+b"), []
    first = planes[0].shape[2]
    for plane in planes:
        smaller = -(-planes[0].shape[1] // plane.shape[1])
        rows = np.full((plane.shape[0], stride * plane.shape[2] // (first * smaller)), 99, "u1")
        rows[:, : plane[0].size] = plane.reshape(len(plane), -1)
        offsets.append(file.tell())
        file.write(rows.tobytes())
    file.flush()
    return file, offsets


def planes_of(name: str, height: int, width: int) -> list[NDArray[np.uint8]]:
    rng, half = np.random.default_rng(4), (-(-height // 2), -(-width // 2))
    if name == "NV12":
        shapes = [(height, width, 1), (*half, 2)]
    elif name in ("I420", "YUV420"):
        shapes = [(height, width, 1), (*half, 1), (*half, 1)]
    elif name == "NV16":
        shapes = [(height, width, 1), (height, half[1], 2)]
    elif name in PACKED:
        shapes = [(height, half[1], 4)]
    else:
        shapes = [(height, width, 4)]
    return [rng.integers(0, 256, shape, np.uint8) for shape in shapes]


@pytest.mark.mesa
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("size", [(30, 44), (15, 21)])
@pytest.mark.parametrize(
    "name", ["NV12", "NV16", "I420", "YUV420", "YUYV", "UYVY", "XRGB8888", "ABGR8888"]
)
def test_a_picture_is_what_numpy_makes_of_its_planes(
    name: str, size: tuple[int, int], given: bool, app: App, dmabufs: Dmabufs
) -> None:
    height, width = size
    planes = planes_of(name, height, width)
    stride = 64 if name in ("NV12", "NV16", "I420", "YUV420") else 192
    file, offsets = file_of(planes, stride)
    interpreter = app.interpreter(negated((1, 20, 24, 3)))
    with file, app.egl:
        where = {"offsets": offsets} if given else {}
        textures = gd.import_picture(file.fileno(), width, height, name, stride, **where)
    transform = gd.ImageTransform(packed=PACKED.get(name))
    app.delegate.bind_texture_to_tensor(0, textures, transform=transform)
    interpreter.invoke()
    if name == "XRGB8888":
        planes[0] = planes[0][..., [2, 1, 0, 3]]
    expected = transform.apply(planes if len(planes) > 1 else planes[0], (20, 24))
    np.testing.assert_allclose(-interpreter.get_tensor(1), expected, atol=1e-5)
    with app.egl:
        for texture in textures:
            texture.close()
    assert (dmabufs.imports, dmabufs.alive) == (len(planes), set())


@pytest.mark.mesa
@pytest.mark.parametrize("size", [(30, 44), (15, 21)])
@pytest.mark.parametrize("external", get_args(dmabuf.External))
def test_an_external_picture_is_what_its_driver_makes_of_the_planes(
    external: dmabuf.External, size: tuple[int, int], app: App, dmabufs: Dmabufs
) -> None:
    planes = planes_of("NV12", *size)
    file, offsets = file_of(planes, 64)
    interpreter = app.interpreter(negated((1, 20, 24, 3)))
    with file, app.egl:
        picture = file.fileno(), size[1], size[0], "NV12", 64
        (texture,) = gd.import_picture(*picture, offsets=offsets, external=external)
    app.delegate.bind_texture_to_tensor(0, texture)
    interpreter.invoke()
    standard, _, full = external.partition("-")
    transform = gd.ImageTransform(yuv=standard, full_range=bool(full))  # type: ignore[arg-type]
    colors = app.read(dmabufs.textures[0], "u1").reshape(*size, 4)[..., :3]
    np.testing.assert_allclose(colors / 255, transform.apply(planes, size)[0], atol=0.51 / 255)
    exact = gd.ImageTransform().apply(colors, (20, 24))
    np.testing.assert_allclose(-interpreter.get_tensor(1), exact, atol=1e-5)
    # A texture of the app in its place, and the external one again.
    app.delegate.bind_texture_to_tensor(0, app.texture(PICTURE))
    interpreter.invoke()
    picture_of_app = gd.ImageTransform().apply(PICTURE, (20, 24))
    np.testing.assert_allclose(-interpreter.get_tensor(1), picture_of_app, atol=1e-5)
    app.delegate.bind_texture_to_tensor(0, texture)
    interpreter.invoke()
    np.testing.assert_allclose(-interpreter.get_tensor(1), exact, atol=1e-5)
    with app.egl:
        texture.close()
    with pytest.raises(ValueError, match="external, found the name 0: bind it again"):
        interpreter.invoke()
    assert dmabufs.alive == set()


@pytest.fixture
def external(app: App, dmabufs: Dmabufs) -> Iterator[gd.ImportedTexture]:
    file, _ = file_of(planes_of("NV12", 8, 12), 16)
    with file, app.egl:
        (texture,) = gd.import_picture(file.fileno(), 12, 8, "NV12", 16, external="bt709")
    yield texture
    with app.egl:
        texture.close()


@pytest.mark.mesa
def test_an_external_texture_by_itself(app: App, external: gd.ImportedTexture) -> None:
    app.interpreter(negated((1, 8, 12, 4)))
    packed = gd.ImageTransform(channels="rgba", packed="yuyv")
    for textures, transform in ((external, packed), ([external, external], None)):
        with pytest.raises(ValueError, match="expected one external texture"):
            app.delegate.bind_texture_to_tensor(
                0, textures, transform=transform or gd.ImageTransform(channels="rgba")
            )
    with pytest.raises(ValueError, match="external one needs an object with glo"):
        app.delegate.bind_texture_to_tensor(
            0, external.glo, transform=gd.ImageTransform(channels="rgba")
        )
    with pytest.raises(ValueError, match=r"in one of .* found 12x8, external"):
        app.delegate.bind_texture_to_tensor(1, external)


@pytest.mark.mesa
def test_bindings_of_external_textures_are_put_back(app: App, external: gd.ImportedTexture) -> None:
    with app.egl, gd.GpuDelegate(context="current") as delegate:
        content = negated((1, 8, 12, 3))
        interpreter = allocated(delegate, content)
        gl = Functions(app.egl.load)
        gl.glBindTexture(gl_names.TEXTURE_EXTERNAL, external.glo)
        before = State(app.egl.load).read()
        delegate.bind_texture_to_tensor(0, external)
        interpreter.invoke()
        assert State(app.egl.load).read() == before
        gl.glBindTexture(gl_names.TEXTURE_EXTERNAL, 0)


@pytest.mark.mesa
def test_a_context_without_external_textures(
    app: App, dmabufs: Dmabufs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Functions, "extensions", lambda self: {"GL_OES_EGL_image"})
    file, _ = file_of(planes_of("NV12", 8, 12), 16)
    with file, app.egl, pytest.raises(gd.ContextError, match="support GL_OES_EGL_image_external"):
        gd.import_picture(file.fileno(), 12, 8, "NV12", 16, external="bt709")
    assert dmabufs.imports == 0


@pytest.mark.mesa
def test_each_buffer_of_a_camera_is_imported_once(app: App, dmabufs: Dmabufs) -> None:
    files = [file_of(planes_of("NV12", 8, 12), 16)[0] for _ in range(3)]
    with app.egl:
        pictures = gd.DmabufPictures(12, 8, "NV12", 16)
        seen = [pictures.textures(i % 3, files[i % 3].fileno()) for i in range(10)]
        assert seen[0] is seen[3]
        assert len({texture.glo for textures in seen for texture in textures}) == 6
        assert dmabufs.imports == 6
        with pytest.raises(ValueError, match="expected the descriptor of a dma-buf, found 1000000"):
            pictures.textures("new", 10**6)
        pictures.close()
        pictures.close()
        assert dmabufs.alive == set()
        assert pictures.textures(0, files[0].fileno())[0].glo
        pictures.close()
    for file in files:
        file.close()


@pytest.mark.mesa
def test_a_picture_is_imported_whole_or_not(app: App, dmabufs: Dmabufs) -> None:
    file, _ = file_of(planes_of("I420", 8, 12), 16)
    create = libegl().eglCreateImageKHR
    with file, app.egl, pytest.MonkeyPatch.context() as patch:

        def refuse_the_last(*arguments: Any) -> int:
            if dmabufs.imports == 2:
                raise EglError("eglCreateImageKHR", 0x3009)
            return int(create(*arguments))

        patch.setattr(libegl(), "eglCreateImageKHR", refuse_the_last)
        with pytest.raises(ValueError, match="EGL cannot import a 6x4 dma-buf"):
            gd.import_picture(file.fileno(), 12, 8, "I420", 16)
    assert dmabufs.alive == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "P010"}, "expected a format of NV12, .*, found 'P010'"),
        ({"offsets": [0]}, r"expected 2 offsets for NV12, found \[0\]"),
        ({"offsets": [0, -4]}, "no negative fd or offset"),
        ({"external": "jpeg"}, "external must be one of .*'bt601'.* not 'jpeg'"),
    ],
)
def test_what_is_no_picture(
    options: dict[str, Any], message: str, app: App, dmabufs: Dmabufs
) -> None:
    file, _ = file_of(planes_of("NV12", 8, 12), 16)
    asked: dict[str, Any] = dict(width=12, height=8, format="NV12", stride=16)
    with file, app.egl, pytest.raises(ValueError, match=message):
        gd.import_picture(file.fileno(), **{**asked, **options})
    assert dmabufs.alive == set()
