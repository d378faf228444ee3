"""Waiting for what other threads and processes do."""

import gc
import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object]) -> None:
    """Collect garbage until something is true; it must be so within two minutes."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        gc.collect()
        time.sleep(0.01)
