"""Rules at their boundaries, and refusals that no model of the other tests meets."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_apps.batch.results import _cells
from gles_apps.tasks import vision
from gles_delegate.errors import ContextError
from gles_delegate.gl.driver import require_version
from gles_delegate.model.metadata import _name


@pytest.mark.parametrize(
    ("version", "is_accepted"),
    [
        ("OpenGL ES 3.0 Mesa", False),
        ("OpenGL ES 3.1 Mesa", True),
        ("OpenGL ES 3.2 Mesa", True),
        ("4.2.0 NVIDIA", False),
        ("4.3.0 NVIDIA", True),
        ("4.6 (Core Profile)", True),
    ],
)
def test_the_oldest_versions_of_opengl(version: str, is_accepted: bool) -> None:
    gl: Any = SimpleNamespace(forget_errors=lambda: None, string=lambda name: version)
    if is_accepted:
        assert require_version(gl)[0] == ("ES" in version)
    else:
        with pytest.raises(ContextError, match=r"expected OpenGL ES 3\.1 or OpenGL 4\.3, found"):
            require_version(gl)


def test_a_mask_is_what_exceeds_the_threshold() -> None:
    output = gd.ImageOutput(palette=[(0, 0, 0, 255), (255, 255, 255, 255)], threshold=0.5)
    tensor = np.float32([0.25, 0.5, 0.75]).reshape(1, 1, 3, 1)
    assert output.apply(tensor)[0, :, 0].tolist() == [0, 0, 1]


def test_a_name_for_each_number() -> None:
    names = ("first", "second")
    assert [_name(names, number) for number in (-1, 0, 1, 2)] == ["", "first", "second", ""]


def test_columns_of_one_value_have_its_name() -> None:
    assert _cells("age", 0) == []
    assert _cells("age", 1) == ["age"]
    assert _cells("age", 2) == ["age_0", "age_1"]


def test_what_is_not_there_is_explained() -> None:
    with pytest.raises(AttributeError, match="InteractiveSegmenterLegacy takes a point"):
        _ = vision.InteractiveSegmenterOptions
    with pytest.raises(AttributeError) as caught:
        _ = vision.SomethingElse
    assert "Interactive" not in str(caught.value)
