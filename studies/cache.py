"""Arrays that a study keeps on disk, so that a run which was stopped goes on."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from zoosim.core.array_cache import kept, module_of
from zoosim.core.types import FloatArray


def kept_array(study: str, key: Sequence[object], make: Callable[[], Any]) -> Any:
    """Return the array that was kept for a `study` under `key`, else what `make` returns.

    It is made anew when the code has changed of the module that `make` stands in, or of one that it imports.
    """
    return kept(study, key, ("values",), partial(_named, make), modules=(module_of(make),))["values"]


def _named(make: Callable[[], Any]) -> dict[str, FloatArray]:
    return {"values": np.asarray(make())}
