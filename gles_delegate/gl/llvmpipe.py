"""For llvmpipe only: pinned worker threads, and parallel compilation of programs."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby, pairwise
from pathlib import Path

from gles_delegate.errors import ContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import release_thread
from gles_delegate.support.threads import Thread, processor_count, processors
from gles_delegate.support.unpatched import Lock

_MAX_THREADS = 8  # limit of compiling threads; each has its own context and LLVM
_PATIENCE = 2e-3  # seconds before they start: cached programs are all done by then
_ROOM = 256 << 20  # bytes of address space for each; LLVM and Mesa end the process without room
_TASKS = Path("/proc/self/task")


def require_executable_memory() -> None:
    """Raise ContextError if the process may not make memory executable; LLVM would crash."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, size)
    start = ctypes.c_char.from_buffer(memory)
    refused = libc.mprotect(ctypes.byref(start), size, mmap.PROT_READ | mmap.PROT_EXEC)
    error = os.strerror(ctypes.get_errno())
    del start
    memory.close()
    if refused:
        raise ContextError(
            "llvmpipe compiles shaders to machine code: expected memory that may become "
            f"executable, found that the system refuses it ({error}): allow it (systemd: "
            "MemoryDenyWriteExecute=no; SELinux: execmem), or use a hardware driver"
        )


def pin_workers() -> None:
    """Pin each of llvmpipe's compute threads to one of this process's processors.

    The kernel often wakes two of them on one processor, where they take turns; a dispatch then
    takes up to twice as long.
    """
    usable = processors()
    for i, thread in enumerate(_workers() if usable else ()):
        with suppress(OSError):  # the thread has ended, or a sandbox refuses
            os.sched_setaffinity(thread, {usable[i % len(usable)]})


def _workers() -> Iterator[int]:
    """The compute threads of every llvmpipe screen of this process.

    Mesa creates N rasterizer threads named ``llvmpipe-<i>``, then N unnamed compute threads.
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


def threads_with_room() -> int:
    """How many threads may compile within the limit of the address space, RLIMIT_AS.

    None if the system refuses to say, as some sandboxes do.
    """
    try:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return _MAX_THREADS
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return max(limit - pages * resource.getpagesize(), 0) // _ROOM


def compile_by(
    uses: Sequence[Callable[[], object]],
    gl: Functions,
    context: EglContext | None,
    progress: Callable[[int], None],
) -> None:
    """Call each of `uses`, which dispatches a program, in the current context.

    llvmpipe compiles a program when a context first dispatches it, unless Mesa's shader cache has
    the code. If that cache is enabled, other threads therefore use some programs first, each in a
    context that shares with `context`, the current one. `progress` gets the number of ready
    programs, first 0. An error of a use or of `progress` ends it after the programs that compile.
    """
    todo = deque(uses)
    ready: list[Callable[[], object]] = []
    failures: list[BaseException] = []
    done = Lock()
    done.acquire()

    def take() -> Iterator[Callable[[], object]]:
        with suppress(IndexError):
            while True:
                use = todo.popleft()
                yield use
                ready.append(use)

    def help_out() -> None:
        if done.acquire(timeout=_PATIENCE):
            done.release()
            return
        try:
            with suppress(ContextError), ExitStack() as stack:
                stack.callback(release_thread)
                own_context = EglContext(share=context)
                stack.callback(own_context.release)
                with own_context:
                    for use in take():
                        use()
                    Functions(own_context.load).glFinish()
        except BaseException as error:
            failures.append(error)

    # Without the cache there are no formats.
    has_cache = gl.integer(gl_names.NUM_PROGRAM_BINARY_FORMATS) > 0
    most = min(processor_count(), _MAX_THREADS, len(uses)) - 1
    threads = min(most, threads_with_room()) if context and has_cache else 0
    gl.glFlush()  # makes the programs visible to other threads
    helpers = [Thread(help_out, "gles_delegate compiler") for _ in range(threads)]
    started: list[Thread] = []
    try:
        with suppress(RuntimeError):  # the process ends, or has too many threads
            for helper in helpers:
                helper.start()
                started.append(helper)
        progress(0)
        for use in take():
            use()
            if todo:
                progress(len(ready) + 1)
    finally:
        todo.clear()
        done.release()
        for helper in started:
            helper.join()
    for failure in failures:
        raise failure
    for use in uses:
        use()
    if uses:
        progress(len(uses))
