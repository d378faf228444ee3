"""Messages about optional packages that are missing."""

import subprocess
import sys

import pytest

import gles_apps.tasks as mp
from gles_delegate.support.optional import installed, needs


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"^pictures need .*: pip install pillow$"):
        mp.Image.create_from_file("face.jpg")
    with pytest.raises(ModuleNotFoundError, match=r"^a chart .*: pip install no_such$"):
        installed("no_such", "a chart needs it")


def test_packages_that_a_package_lacks_are_not_taken_for_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'json\.missing'$"):
        installed("json.missing", "this")
    with pytest.raises(ModuleNotFoundError, match="nothing_else"), needs("us", "apps", "PIL"):
        import nothing_else  # noqa: F401


@pytest.mark.parametrize(("package", "extra"), [("live", "apps"), ("batch", "cli")])
def test_packages_of_apps_name_their_extra(package: str, extra: str) -> None:
    script = f"import sys; sys.modules['PIL'] = None; import gles_apps.{package}"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    (*_, last) = ended.stderr.splitlines()
    assert last.startswith(f"ModuleNotFoundError: gles_apps.{package} needs the extra {extra} (")
    assert last.endswith(f": pip install 'gles_delegate[{extra}]'")
