"""Limits are declared beside fields, and what is beyond them is said in a line."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np
import pytest

from zoosim.core.limits import FLAGS, IDS, covariance_flaws, first_flaw, trained_flaws
from zoosim.core.types import FloatArray, IntArray


class Inner(NamedTuple):
    """A part of a state."""

    flags: Annotated[IntArray, FLAGS]
    ids: Annotated[IntArray, IDS]


class Outer(NamedTuple):
    """A state whose slots are places in `values`."""

    inner: Inner
    values: FloatArray
    slots: IntArray
    rate: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.slots.max() >= len(self.values):
            yield f"slots holds {self.slots.max()}, expected less than {len(self.values)}"


def outer(flags: int = 1, ids: int = -5, value: float = 0.5, slot: int = 0) -> Outer:
    return Outer(Inner(np.array([flags]), np.array([ids])), np.array([value, 0.0]), np.array([slot]), 0.1)


@pytest.mark.parametrize(
    ("state", "flaw"),
    [
        (outer(), ""),
        (outer(flags=2), "state.inner.flags holds 2, expected at most 1"),
        (outer(value=np.nan), "state.values holds nan, expected at least -1e+45"),
        (outer(value=1e60), "state.values holds 1e+60, expected at most 1e+45"),
        (outer(slot=-1), "state.slots holds -1, expected at least 0"),
        (outer(slot=2), "state.slots holds 2, expected less than 2"),
    ],
)
def test_the_first_flaw_is_said(state: Outer, flaw: str) -> None:
    assert first_flaw("state", state) == flaw


def test_covariances_may_be_negative_by_rounding_alone() -> None:
    sound = np.array([[2.0, 1.0], [1.0, 0.5]])
    assert not list(covariance_flaws("c", sound - 1e-9 * np.eye(2)))
    assert not list(covariance_flaws("c", np.zeros((3, 0, 0))))
    assert list(covariance_flaws("c", np.array([[1.0, 2.0], [2.0, 1.0]])))
    assert list(covariance_flaws("c", np.array([[1.0, 0.5], [0.0, 1.0]])))
    assert list(covariance_flaws("c", np.stack([sound, -sound])))


def test_second_moments_are_not_negative() -> None:
    trained = np.zeros((2, 3, 4), np.float32)
    assert not list(trained_flaws("t", trained))
    trained[1, 2, 0] = -1e-6
    assert list(trained_flaws("t", trained))
