"""Which ops a driver computes wrong: found by the short form, and kept for the next start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from gles_delegate.gl.thread import GlThread
from gles_delegate.options import GpuDelegateOptions, InferencePreference
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.verification.cases import content_id, load_cases
from gles_delegate.verification.check import CaseResult, Form, forms_of, verified
from gles_delegate.version import __version__

Verdict: TypeAlias = Mapping[str, str]
"""Ops that a driver computes wrong, with the reason."""

_found: dict[tuple[str, str], Verdict] = {}
"""The verdicts of this process, by driver and storage."""


def wrong_ops(thread: GlThread, options: GpuDelegateOptions) -> Verdict:
    """The ops that the driver computes wrong in the forms that a delegate of these options uses.

    Each form of storage runs once for a driver and a version of the package, unless the options'
    folder has its verdict. Raises `ContextLostError` or `OutOfGpuMemoryError`.
    """
    limits, folder = thread.gpu.limits, options.serialization_dir
    tuned = options.inference_preference == InferencePreference.SUSTAINED_SPEED
    half = options.half_allowed and limits.profile.half_storage
    driver = fingerprint(__version__, content_id(), thread.gpu.driver.identity, limits, tuned)
    store = Store(folder, f"verdict-{driver}", driver) if folder is not None else None
    wrong: dict[str, str] = {}
    for storage in ("float32", "float16") if half else ("float32",):
        stored = _stored(store, storage)
        verdict = _found.get((driver, storage)) if stored is None else stored
        if verdict is None:
            forms = [form for form in forms_of(limits, half, tuned) if form.storage == storage]
            verdict = _verdict(thread, forms)
        if store is not None and stored is None:
            store.add(storage, json.dumps(verdict).encode())
        _found[driver, storage] = verdict
        wrong = {**verdict, **wrong}
    if store is not None:
        store.save()
    return wrong


def _verdict(thread: GlThread, forms: list[Form]) -> Verdict:
    results = thread.run(lambda: [*verified(thread.gpu, load_cases(quick=True), forms)])
    wrong = sorted((r for r in results if not r.passed), key=lambda result: -result.ratio)
    return {result.op: _reason(result) for result in reversed(wrong)}


def _reason(result: CaseResult) -> str:
    where = " with float16 storage" if result.storage == "float16" else ""
    if result.failure:
        return f"the driver fails to run {result.op}{where}: {result.failure}"
    return f"the driver computes {result.op} wrong by {result.error:.0e}{where}"


def _stored(store: Store | None, storage: str) -> Verdict | None:
    """The verdict of an earlier start; one that is damaged is dropped with a warning."""
    data = store.get(storage) if store is not None else None
    if store is None or data is None:
        return None
    try:
        verdict = json.loads(bytes(data))
    except (ValueError, RecursionError):
        verdict = None
    if isinstance(verdict, dict) and all(isinstance(text, str) for text in verdict.values()):
        return verdict
    store.drop(storage)
    return None
