"""The compute programs of a plan: each distinct shader is compiled once, or loaded from a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from gles_delegate.closing import release_all
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.functions import Call
from gles_delegate.gl.program import Program
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.shaders.source import Source

Progress: TypeAlias = Callable[[int, int], None]
"""Called as programs compile, with the number of those that are ready, and of all."""


class Programs:
    """The programs of `sources`. On a GPU, the driver compiles them in the background.

    Args:
        store: Binaries are loaded from it, and new ones added.
    """

    def __init__(self, sources: Sequence[Source], gpu: GpuContext, store: Store | None) -> None:
        self._sources = sources
        self._gpu = gpu
        self._store = store
        self._programs: dict[str, Program] = {}
        try:
            for source in sources:
                if source.text not in self._programs:
                    binary = store.get(fingerprint(source.text)) if store else None
                    self._programs[source.text] = Program(gpu.gl, source, binary or b"")
            if not gpu.is_llvmpipe:
                for program in self._programs.values():
                    program.start()
        except BaseException:
            self.release()
            raise

    @property
    def names(self) -> list[int]:
        """The GL name of each source's program."""
        return [self._programs[source.text].name for source in self._sources]

    @property
    def nbytes(self) -> int:
        """Bytes of their binaries; 0 if the driver gives none."""
        return sum(program.binary_bytes for program in self._programs.values())

    def compile(self, trials: Mapping[int, Sequence[Call]], progress: Progress | None) -> None:
        """Wait until every program is compiled, and add new ones to the store.

        Args:
            trials: By program, calls that use it once. Some drivers, such as llvmpipe and V3D,
                generate machine code at the first dispatch of a program.

        Raises:
            ShaderError: A shader does not compile or link.
        """
        programs, report = self._programs.values(), progress or (lambda done, total: None)
        total = len(programs)

        def try_out(program: Program) -> None:
            program.finish()
            for function, arguments in trials[program.name]:
                function(*arguments)
            self._gpu.gl.check("compile")

        jobs = [partial(try_out, program) for program in programs]
        if self._gpu.is_llvmpipe:
            self._gpu.run_trials(jobs, lambda done: report(done, total))
        else:
            for done, job in enumerate(jobs):
                report(done, total)
                job()
            report(total, total)
        self._keep()

    def release(self) -> None:
        programs, self._programs = self._programs, {}
        release_all(programs.values())

    def _keep(self) -> None:
        for text, program in self._programs.items() if self._store else ():
            binary = b"" if program.is_from_binary else program.binary()
            if binary and self._store:
                self._store.add(fingerprint(text), binary)
