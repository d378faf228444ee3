"""For llvmpipe alone: worker threads kept apart, and programs compiled by several threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import groupby, pairwise
from pathlib import Path
from threading import Event

from gles_delegate.errors import ContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions

_MOST_THREADS = 8
"""Threads that compile: each has its own context and LLVM."""

_PATIENCE = 2e-3
"""Seconds before they begin: with cached programs there is nothing left to do by then."""

_TASKS = Path("/proc/self/task")


def pin_workers() -> None:
    """Give each of llvmpipe's compute threads one of the processors this process may use.

    The kernel often wakes two of them on one processor, where they take turns; a dispatch
    then takes up to twice as long. Does nothing where there is no such thread.
    """
    processors = sorted(os.sched_getaffinity(0))
    for i, thread in enumerate(_workers()):
        try:
            os.sched_setaffinity(thread, {processors[i % len(processors)]})
        except OSError:  # it ended meanwhile
            continue


def _workers() -> Iterator[int]:
    """The compute threads of every llvmpipe screen of this process.

    Mesa creates, one after the other, N rasterizer threads that it names ``llvmpipe-<i>`` and
    N compute threads that it leaves unnamed.
    """
    try:
        threads = sorted(int(task.name) for task in _TASKS.iterdir())
        names = {thread: (_TASKS / str(thread) / "comm").read_text() for thread in threads}
    except OSError:
        return
    runs = [
        (rasterizers, list(group))
        for rasterizers, group in groupby(threads, lambda t: names[t].startswith("llvmpipe-"))
    ]
    for (rasterizers, first), (_, second) in pairwise(runs):
        if rasterizers:
            yield from second[: len(first)]


def compile_by(
    uses: Sequence[Callable[[], object]],
    gl: Functions,
    context: EglContext | None,
    progress: Callable[[int], None],
) -> None:
    """Call each of `uses`, which dispatches a program, in the current context.

    llvmpipe compiles a program when a context first dispatches it, unless Mesa's shader cache has
    the code. So, where there is that cache, other threads use some of them first, each in a
    context that shares with `context`, the current one.

    Args:
        progress: Called with the number of programs that are ready, at first 0, then ever more.
    """
    todo = deque(uses)
    ready: list[Callable[[], object]] = []
    done = Event()

    def take() -> Iterator[Callable[[], object]]:
        while todo:
            try:
                yield todo.popleft()
            except IndexError:  # another thread took it
                return

    def help_out() -> None:
        if done.wait(_PATIENCE):
            return
        with suppress(ContextError), ExitStack() as stack:
            context_here = EglContext(share=context)
            stack.callback(context_here.release)
            with context_here:
                for use in take():
                    use()
                    ready.append(use)
                Functions(context_here.load).glFinish()

    # Without the cache there are no formats.
    has_cache = gl.integer(gl_names.NUM_PROGRAM_BINARY_FORMATS) > 0
    helpers = min(len(os.sched_getaffinity(0)), _MOST_THREADS, len(uses)) - 1
    gl.glFlush()  # the others must see the programs
    with ThreadPoolExecutor(_MOST_THREADS, "gles_delegate compiler") as pool:
        others = [pool.submit(help_out) for _ in range(helpers if context and has_cache else 0)]
        try:
            progress(0)
            for use in take():
                use()
                ready.append(use)
                if todo:
                    progress(len(ready))
        finally:
            todo.clear()
            done.set()
    for other in others:
        other.result()
    for use in uses:
        use()
    if uses:
        progress(len(uses))
