"""Names, members, fields and parameters of an installed MediaPipe's tasks, as JSON.

`python -m tests.support.mediapipe_api` records them. A parameter is "name", or "name=default";
those after "*" are given by name.
"""

import dataclasses
import enum
import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("mediapipe_api.json")
ROOT = "mediapipe.tasks.python"
PACKAGES = ("audio", "components.containers", "components.processors", "text", "vision")
MODULES = (
    *("audio.core.audio_task_running_mode", "components.processors.classifier_options"),
    *("components.utils.cosine_similarity", "core.base_options"),
    *("vision.core.image_processing_options", "vision.core.vision_task_running_mode"),
)
OF_C = {"from_ctypes", "to_ctypes", "ctype", "create_from_ctypes", "free_ctypes"}
"""Methods of MediaPipe's binding to its library in C, whose classes begin with Mp and end in C."""


def described() -> dict[str, Any]:
    """All that is public, by module and name."""
    import mediapipe as mp  # type: ignore[import-not-found]

    names = [*PACKAGES, *MODULES]
    for package in PACKAGES:
        path = importlib.import_module(f"{ROOT}.{package}").__path__
        names += [f"{package}.{each.name}" for each in pkgutil.iter_modules(path)]
    modules = {name: _module(name) for name in sorted({*names}) if not name.endswith("_c")}
    return {
        "mediapipe": mp.__version__,
        "top": _public(mp),
        "tasks": _public(mp.tasks),
        "modules": modules,
        "mp.Image": _class(mp.Image),
        "mp.ImageFormat": _class(mp.ImageFormat),
    }


def _public(module: Any) -> list[str]:
    return sorted(name for name in vars(module) if not name.startswith("_"))


def _module(name: str) -> dict[str, Any]:
    module = importlib.import_module(f"{ROOT}.{name}")
    found: dict[str, Any] = {}
    for key in _public(module):
        value = getattr(module, key)
        home = getattr(value, "__module__", None) or ""
        if key.endswith(("C", "from_ctypes")) or not home.startswith("mediapipe"):
            continue
        if home != module.__name__:
            if inspect.isclass(value):
                found[key] = f"{home}.{value.__qualname__}".removeprefix(f"{ROOT}.")
        elif inspect.isclass(value):
            found[key] = _class(value)
        elif inspect.isfunction(value):
            found[key] = _parameters(value)
    return found


def _class(kind: Any) -> dict[str, Any]:
    if issubclass(kind, enum.Enum):
        return {"enum": {name: repr(each.value) for name, each in kind.__members__.items()}}
    found: dict[str, Any] = {"methods": {}}
    if dataclasses.is_dataclass(kind):
        found["fields"] = [field_text(each) for each in dataclasses.fields(kind)]
    for name, value in inspect.getmembers(kind):
        if name in OF_C or (name.startswith("_") and name != "__init__"):
            continue
        if inspect.isclass(value) and (value.__module__ or "").startswith("mediapipe"):
            found.setdefault("nested", {})[name] = _class(value)
        elif inspect.isroutine(value) and (name != "__init__" or "__init__" in vars(kind)):
            found["methods"][name] = _parameters(value)
        elif isinstance(value, property):
            found["methods"][name] = None
    return found


def field_text(each: dataclasses.Field[Any]) -> str:
    """A name, or "name=default"."""
    if each.default is not dataclasses.MISSING:
        return f"{each.name}={each.default!r}"
    if each.default_factory is not dataclasses.MISSING:
        return f"{each.name}=factory: {each.default_factory()!r}"
    return each.name


def _parameters(function: Any) -> list[str]:
    """But for self and cls."""
    listed, is_named = list[str](), False
    for each in inspect.signature(function).parameters.values():
        if each.kind == each.KEYWORD_ONLY and not is_named:
            listed.append("*")
            is_named = True
        if each.name not in ("self", "cls"):
            has_default = each.default is not each.empty
            listed.append(f"{each.name}={each.default!r}" if has_default else each.name)
    return listed


if __name__ == "__main__":
    text = json.dumps(described(), indent=0, sort_keys=True)
    RECORDED.write_text(text + "\n", "utf-8")
