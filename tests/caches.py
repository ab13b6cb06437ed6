"""Caches of tests: what a test is to find as nobody left it, beside compiled kernels, which all tests share."""

from pathlib import Path

import pytest

from zoosim.core.files import cache_folder

COMPILED = ("kernels", "outlines")
"""Folders of what is compiled: it depends on the code alone, and takes a third of the time of all tests."""


def use_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let trained models, truths and results of studies be kept in a folder of the test's own."""
    shared = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMPILED:
        (shared / name).mkdir(0o700, parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(shared / name)
    monkeypatch.setenv("ZOOSIM_CACHE", str(folder))
