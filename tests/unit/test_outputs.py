"""What is written replaces nothing that the same run reads."""

import errno
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gles_delegate.support.outputs import require_other_files


def other_spelling(folder: Path) -> Path:
    return folder / "sub" / ".." / "photo.jpg"


def from_the_current_folder(folder: Path) -> Path:
    os.chdir(folder / "sub")
    return Path("../photo.jpg")


def linked(folder: Path) -> Path:
    (folder / "link.jpg").symlink_to("photo.jpg")
    return folder / "link.jpg"


def linked_twice(folder: Path) -> Path:
    (folder / "sub" / "twice.jpg").symlink_to(linked(folder))
    return folder / "sub" / "twice.jpg"


def hard_linked(folder: Path) -> Path:
    os.link(folder / "photo.jpg", folder / "hard.jpg")
    return folder / "hard.jpg"


def in_a_linked_folder(folder: Path) -> Path:
    (folder / "there").symlink_to(folder, target_is_directory=True)
    return folder / "there" / "photo.jpg"


SPELLINGS = (
    lambda folder: folder / "photo.jpg",
    other_spelling, from_the_current_folder, linked, linked_twice, hard_linked, in_a_linked_folder,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "photo.jpg").write_bytes(b"a photograph")
    return tmp_path


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_an_output_is_no_input(spelled: Callable[[Path], Path], folder: Path) -> None:
    output, photo = spelled(folder), folder / "photo.jpg"
    require_other_files([folder / "new.jpg", None], [photo, None])
    for pair in ((output, photo), (photo, output)):
        with pytest.raises(ValueError, match="would be overwritten; name another file") as caught:
            require_other_files([None, folder / "new.jpg", pair[0]], [None, pair[1]])
        assert str(pair[0]) in str(caught.value)
        assert str(pair[1]) in str(caught.value)


@pytest.mark.parametrize("spelled", SPELLINGS)
@pytest.mark.parametrize("is_new", [False, True])
def test_two_outputs_are_two_files(
    is_new: bool, spelled: Callable[[Path], Path], folder: Path
) -> None:
    outputs = [folder / "photo.jpg", spelled(folder)]
    if is_new and spelled is not hard_linked:
        (folder / "photo.jpg").unlink()
    with pytest.raises(ValueError, match=r"for each output, found .*photo.jpg and .*another one"):
        require_other_files(outputs)
    require_other_files([outputs[0], folder / "sub" / "photo.jpg", folder / "no" / "photo.jpg"])


def test_a_path_into_a_bundle_is_the_bundle(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"the same file as .*photo.jpg/member.tflite"):
        require_other_files([folder / "photo.jpg"], [folder / "photo.jpg" / "member.tflite"])


def test_a_current_folder_that_cannot_be_reached(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a network's folder whose server is gone."""

    def stat(path: object) -> os.stat_result:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stat)
        require_other_files(["new.jpg", "sub/other.jpg"], ["photo.jpg"])
        with pytest.raises(ValueError, match=r"for each output, found ./new.jpg and new.jpg"):
            require_other_files(["./new.jpg", "new.jpg"])


def test_what_is_being_read_is_an_input(folder: Path) -> None:
    """As external weights, mapped models, and the files of a GStreamer pipeline."""
    photo = folder / "photo.jpg"
    with photo.open("rb") as file, pytest.raises(ValueError, match=r"found photo.jpg, the same"):
        require_other_files(["photo.jpg"])
    with photo.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with mapped, pytest.raises(ValueError, match=r"found photo.jpg, the same"):
        require_other_files(["photo.jpg"])
    with photo.open("r+b"):  # a temporary file that the app makes for the output
        require_other_files(["photo.jpg"])
    require_other_files(["photo.jpg"])
