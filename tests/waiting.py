"""Waits until something is so, however busy the machine is."""

import time
from collections.abc import Callable


def eventually(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is so; raises `AssertionError` when that takes longer."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
        time.sleep(0.01)
