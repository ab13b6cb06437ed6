"""The Python calls about logs of searches: import them, and fit search worlds to them."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, public_call

if TYPE_CHECKING:
    from zoosim.core.types import Progress
    from zoosim.fitting.search_world import FittedSearchWorld


@public_call
def fit_search_world(
    log: Any,
    out: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
    progress: "Progress | None" = automatic_progress,
) -> "FittedSearchWorld":
    """Estimate a search world from a log of searches: its queries, and how visitors examine, click and buy.

    Args:
        log: A Parquet file of searches, as `zoosim import` and `zoosim log` write them, or a `Log` of one.
        out: A folder that gets world.yaml, which `zoosim run --config` takes, the shop's tables, summary.json and
            report.html.
        skip_bad: Leave bad rows out instead of refusing the log.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Raises:
        ConfigError: `out` cannot be written.
        DataError: the log is bad, or too poor to estimate a world from.
    """
    assert progress is not None  # `public_call` sees to that
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import writable_folder
    from zoosim.core.action_space import BOOSTS
    from zoosim.core.files import write_text
    from zoosim.fitting.search_world import fit_search_world as fit
    from zoosim.logs.load import load_log
    from zoosim.report.search_fit import build_page
    from zoosim.report.sections import render_sections

    loaded = load_log(log, action_space=BOOSTS, skip_bad=skip_bad)
    folder = writable_folder(out, "estimates")
    with threadpool_limits(1):  # with more, the last digits depend on how many there are
        world = fit(loaded, Path(folder), progress=progress)
    question = f"What search shop wrote {loaded.source}?"
    command = ["zoosim", "fit-world", loaded.source, "--out", str(folder)]
    page = render_sections("A search shop from a log", question, build_page(world), command)
    write_text(folder / "summary.json", json.dumps(world.summary, indent=1, allow_nan=False) + "\n")
    write_text(folder / "report.html", page)
    return world
