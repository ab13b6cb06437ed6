"""Services of the tests' own process draw alike in every run: their secrets and ids follow from the test's name."""

import secrets
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from zoosim.serving import machine


@pytest.fixture(autouse=True)
def same_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of what was drawn by chance would else fail once in a hundred runs, and nobody could repeat it."""
    rng = np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
    assert vars(machine)["secrets"] is secrets, "the module's own name for it is replaced, not the library's functions"
    monkeypatch.setattr(machine, "secrets", SimpleNamespace(token_bytes=rng.bytes))
