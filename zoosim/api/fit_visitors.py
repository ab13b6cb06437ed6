"""Fit a model of visitors who come back to a log, and say whether looking ahead pays there."""

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from zoosim.core.errors import ConfigError

if TYPE_CHECKING:
    from zoosim.core.types import Progress
    from zoosim.fitting.look_ahead import LookAhead
    from zoosim.logs.log import Log


def fit_visitors(
    log: "Log",
    out: str | os.PathLike[str] | None,
    *,
    gone_after: float | None,
    seed: int,
    progress: "Progress",
) -> "LookAhead":
    """Fit a model of visitors who come back; see `zoosim.fit_world`.

    Args:
        log: A log of products with lives, or with users and times.
        out: Folder for the page and the figures; None for none.
        gone_after: Days without a visit after which a visitor has gone, where the log tells no lives.
        seed: Seed of all draws.
        progress: Called with lines about how far it is.

    Raises:
        ConfigError: an option does not go with the log, or the folder cannot be written to.
        DataError: the log tells nothing of visits, or has too many kinds of products.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import writable_folder
    from zoosim.core.files import write_text
    from zoosim.fitting.look_ahead import look_ahead
    from zoosim.fitting.visits import read_kinds, read_visits
    from zoosim.report.look_ahead import build_page
    from zoosim.report.sections import render_sections

    if gone_after is not None and log.lives is not None:
        raise ConfigError(f"--gone-after: {log.source} says itself when visitors have gone; leave it out")
    if gone_after is not None and not 0.0 < gone_after <= 36_500.0:
        raise ConfigError(f"--gone-after: got {gone_after:g} days, expected a number above 0 and up to 36,500")
    folder = None if out is None else writable_folder(out, "visits_ended")
    kinds = read_kinds(log)
    visits = read_visits(log, kinds, gone_after=gone_after)
    with threadpool_limits(1):  # with more, the last digits depend on how many there are
        found = look_ahead(visits, kinds, source=log.source, seed=seed, progress=progress)
    found = replace(found, skipped=log.skipped)
    if folder is not None:
        question = "Do you need to look ahead?"
        command = ["zoosim", "fit-world", log.source, "--out", str(folder)]
        if gone_after is not None:
            command += ["--gone-after", f"{gone_after:g}"]
        page = render_sections("Visitors who come back", question, build_page(found), command)
        write_text(folder / "summary.json", json.dumps(found.summary, indent=1, allow_nan=False) + "\n")
        write_text(folder / "report.html", page)
    return found
