"""Helpers of targets of all action spaces: policies that are evaluated on a log, and stay as they are meanwhile."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from zoosim.core.arrays import as_floats
from zoosim.core.blame import blamed
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.policies.base import Policy


def state_of(policy: Policy) -> bytes:
    """Return what a policy has learned, and where its generator stands, as bytes; raises `PolicyError`."""
    rng = getattr(policy, "rng", None)
    with blamed("its state cannot be read: "):
        generator_state = rng.bit_generator.state if isinstance(rng, np.random.Generator) else None
        return pickle.dumps((policy.state_dict(), generator_state))


def column_name(log: Log, given: str) -> str:
    """Return the NAME of `column:NAME`; raises `DataError` where the log has no such column."""
    name = given.removeprefix("column:")
    if name not in log.columns:
        raise DataError(f"the log has no column {name}; it has {', '.join(log.columns) or 'none read'}")
    return name


def as_numbers(given: Any, expected: str) -> FloatArray:
    """Return an array of numbers, or raise `ConfigError` that says what was `expected`."""
    try:
        return as_floats(given)
    except (TypeError, ValueError):
        raise ConfigError(f"got {shown(given)}, expected {expected}") from None


@contextmanager
def naming(policy: str) -> Iterator[None]:
    """Put the name of a `policy` before the message of an error that it causes."""
    try:
        yield
    except (PolicyError, DataError, ConfigError) as error:
        raise type(error)(f"policy {policy}: {error}") from error
