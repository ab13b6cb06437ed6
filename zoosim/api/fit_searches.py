"""Fit a search shop to a log of searches."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError

if TYPE_CHECKING:
    from zoosim.core.types import Progress
    from zoosim.fitting.search_world import FittedSearchWorld


def fit_searches(
    log: Any,
    out: str | os.PathLike[str] | None,
    *,
    reward: str | None,
    data: str | os.PathLike[str] | None,
    seed: int,
    gone_after: float | None,
    skip_bad: bool,
    progress: "Progress",
) -> "FittedSearchWorld":
    """Fit a search shop: its queries, and how visitors examine, click and buy; see `zoosim.fit_world`.

    Args:
        log: A log of searches, as `load_log` takes it.
        out: Folder for the shop's tables, its page and its figures; it is needed.
        reward, data, seed, gone_after: Refused: a search shop has none of them to choose.
        skip_bad: Whether invalid rows are dropped and counted, rather than refused.
        progress: Called with lines about how far it is.

    Raises:
        ConfigError: an option does not go with such a log, or the folder cannot be written to.
        DataError: the log cannot be read.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import writable_folder
    from zoosim.core.action_space import BOOSTS
    from zoosim.core.files import write_text
    from zoosim.fitting.search_world import fit_search_world as fit
    from zoosim.logs.load import load_log
    from zoosim.report.search_fit import build_page
    from zoosim.report.sections import render_sections

    if out is None:
        raise ConfigError("fit-world: got no folder for a search shop, expected one for its tables (out)")
    loaded = load_log(log, action_space=BOOSTS, skip_bad=skip_bad)
    if reward is not None or data is not None or seed:
        raise ConfigError(f"fit-world: {loaded.source} is a log of searches; leave out --reward and --data, or a seed")
    if gone_after is not None:
        raise ConfigError(f"fit-world: {loaded.source} is a log of searches; leave out --gone-after")
    folder = writable_folder(out, "estimates")
    with threadpool_limits(1):  # with more, the last digits depend on how many there are
        world = fit(loaded, Path(folder), progress=progress)
    question = f"What search shop wrote {loaded.source}?"
    command = ["zoosim", "fit-world", loaded.source, "--out", str(folder)]
    page = render_sections("A search shop from a log", question, build_page(world), command)
    write_text(folder / "summary.json", json.dumps(world.summary, indent=1, allow_nan=False) + "\n")
    write_text(folder / "report.html", page)
    return world
