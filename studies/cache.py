"""Arrays that a study keeps on disk, so that a run which was stopped goes on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.array_cache import kept

ROOT = Path(__file__).parents[1]


def kept_array(study: str, key: Sequence[object], sources: Sequence[str], make: Callable[[], Any]) -> Any:
    """Return the array that was kept for a `study` under `key`, else what `make` returns.

    It is made anew when one of the `sources` has changed: folders and files of zoosim, or of `studies/`.
    """
    places = [str(ROOT / source) if source.startswith("studies/") else source for source in sources]
    return kept(study, key, places, ("values",), lambda: {"values": np.asarray(make())})["values"]
