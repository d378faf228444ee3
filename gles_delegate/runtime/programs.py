"""The compute programs of a model: each shader is compiled once, or loaded from a store.

Models in one `EglContext` share them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import TypeAlias

from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.functions import GlCall
from gles_delegate.gl.program import Program
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.shaders.assembly import ShaderSource
from gles_delegate.support.closing import in_any_case, on_error

log = logging.getLogger("gles_delegate")

Progress: TypeAlias = Callable[[int, int], None]
"""Called as programs compile, with the number of ready ones and the total."""


_SILENCE = 2.0
"""Seconds of compiling after which the log says so."""


COMPILING = "compiling shaders: %d of %d programs are ready%s"
KEEPING = "; GpuDelegateOptions(serialization_dir=...) keeps them for later"
"""What the log then says, and its advice to programs that keep none."""


def _said_once(are_kept: bool) -> Progress:
    """Log one line if compiling takes so long that it looks like a hang."""
    end = perf_counter() + _SILENCE
    advice = "" if are_kept else KEEPING

    def report(done: int, total: int) -> None:
        nonlocal end
        if done < total and perf_counter() > end:
            end = inf
            log.warning(COMPILING, done, total, advice)

    return report


@dataclass
class _PooledProgram:
    """A program, which other models of the context may use."""

    program: Program
    ready: bool = False

    def release(self) -> None:
        self.program.release()


@dataclass
class _SharedProgram:
    """A program and its users in this model; `ready` if it can be used and was stored."""

    compiled: _PooledProgram
    users: int = 0
    ready: bool = False

    @property
    def program(self) -> Program:
        return self.compiled.program


class Programs:
    """The programs of a model, which its sessions share.

    Every method runs on the delegate's thread, inside the guard. `unused` programs without a user
    are kept for other input shapes.
    """

    def __init__(self, gpu: GpuContext, unused: int = 256) -> None:
        self._gpu = gpu
        self._pool = gpu.pool
        self._unused = unused
        self._shared: dict[str, _SharedProgram] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of their binaries; 0 if the driver does not report them."""
        return sum(shared.program.binary_bytes for shared in self._shared.values() if shared.ready)

    def take(self, sources: Sequence[ShaderSource], store: Store | None) -> list[int]:
        """The GL name of each source's program; `compile` makes it usable, `give_back` releases it.

        On a GPU, the driver compiles in the background. Binaries are loaded from the store.
        """
        texts = [source.text for source in sources]
        distinct = dict(zip(texts, sources, strict=True))
        taken: list[str] = []
        with on_error(partial(self._give_back, taken)):
            for text, source in distinct.items():
                if text not in self._shared:
                    make = partial(self._made, source, store)
                    self._shared[text] = _SharedProgram(self._pool.take(text, make))
                self._shared[text].users += 1
                taken.append(text)
            if not self._gpu.driver.is_llvmpipe:
                for text in taken:
                    self._shared[text].program.start()
        return [self._shared[text].program.name for text in texts]

    def compile(
        self,
        sources: Iterable[ShaderSource],
        trials: Mapping[int, Sequence[GlCall]],
        store: Store | None,
        progress: Progress | None,
    ) -> None:
        """Wait until the programs taken for `sources` are compiled; raises ShaderError.

        `trials` holds calls that use each program once: some drivers, such as llvmpipe and V3D,
        generate machine code at its first dispatch. New binaries are added to the store. An error
        of `progress` stops compiling.
        """
        taken = {source.text: self._shared[source.text] for source in sources}
        # A long text compiles for a long time: such a program must not be the last.
        longest_first = [taken[text].compiled for text in sorted(taken, key=len, reverse=True)]
        missing = [compiled for compiled in longest_first if not compiled.ready]
        report = progress or _said_once(store is not None)
        total = len(missing)

        def tell(done: int) -> None:
            self._gpu.give_way()
            report(done, total)

        def try_out(compiled: _PooledProgram) -> None:
            compiled.program.finish()
            for function, arguments in trials[compiled.program.name]:
                function(*arguments)
            self._gpu.gl.check("compile")

        jobs = [partial(try_out, compiled) for compiled in missing]
        if jobs and self._gpu.driver.is_llvmpipe:
            self._gpu.run_trials(jobs, tell)
        elif jobs:
            for done, job in enumerate(jobs):
                tell(done)
                job()
            tell(total)
        for compiled in missing:
            compiled.ready = True
        for text, shared in taken.items():
            if store and not shared.ready:
                _keep(shared.program, fingerprint(text), store)
            shared.ready = True

    def give_back(self, sources: Iterable[ShaderSource]) -> None:
        self._give_back(dict.fromkeys(source.text for source in sources))

    def release(self) -> None:
        shared, self._shared = self._shared, {}
        in_any_case(partial(self._pool.give_back, text) for text in shared)

    def _made(self, source: ShaderSource, store: Store | None) -> _PooledProgram:
        binary = store.get(fingerprint(source.text)) if store else None
        return _PooledProgram(Program(self._gpu.gl, source, binary or b""))

    def _give_back(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text in self._shared:  # else all were released
                shared = self._shared.pop(text)
                shared.users -= 1
                self._shared[text] = shared  # last in order: most recently used
        unused = [text for text, shared in self._shared.items() if not shared.users]
        ready = [text for text in unused if self._shared[text].ready]
        gone = {*unused}.difference(ready[max(len(ready) - self._unused, 0) :])
        for text in gone:
            del self._shared[text]
        in_any_case(partial(self._pool.give_back, text) for text in gone)


def _keep(program: Program, key: str, store: Store) -> None:
    """Add the binary of a program to a store, unless it came from there."""
    if not program.is_from_binary or store.get(key) is None:
        binary = program.binary()
        if binary:
            store.add(key, binary)
