"""What simulated machines compute once for all of them, and for all days: it follows from its arguments alone."""

import math
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

from zoosim.core.digests import hashed_share
from zoosim.monitoring import difference
from zoosim.monitoring.difference import DifferenceTest
from zoosim.monitoring.sample_size import information_needed
from zoosim.policies import model
from zoosim.policies.model import Model
from zoosim.serving import arms, folder
from zoosim.serving.launches import beforehand

# The answers of some functions for the arguments that they are called with most: each of three learners looks at the
# same launch, whose plan is the same on all days.
_boundary = lru_cache(10_000)(difference._boundary)
_information_needed = lru_cache(10_000)(information_needed)
_hashed_share = lru_cache(10_000)(hashed_share)


_pickled_models: dict[bytes, bytes] = {}


def load_model(path: Path, *, content: bytes | None = None) -> Model:
    """Load a model; where a file of the same bytes was loaded before, make a copy of what that held."""
    if content is None:
        content = path.read_bytes() if path.exists() else b""
    if content not in _pickled_models:
        _pickled_models[content] = pickle.dumps(model.load_model(path, content=content or None))
    copied: Model = pickle.loads(_pickled_models[content])
    copied.source = str(path)
    return copied


@contextmanager
def shortcuts() -> Iterator[None]:
    """Let days take them within the block."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(difference, "_boundary", _boundary))
        stack.enter_context(patch.object(arms, "hashed_share", _hashed_share))
        stack.enter_context(patch.object(beforehand, "information_needed", _information_needed))
        stack.enter_context(patch.object(folder, "load_model", load_model))
        # Which takes most of the time of a report, and nothing depends on.
        stack.enter_context(patch.object(DifferenceTest, "remaining", lambda test, claim, share: math.inf))
        yield
