"""Fit a shop of products to a log."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import write_text
from zoosim.core.memory import check_memory
from zoosim.core.parameters import shown

if TYPE_CHECKING:
    from zoosim.core.types import Progress
    from zoosim.fitting import Checks
    from zoosim.fitting.look_ahead import LookAhead
    from zoosim.logs.log import Log
    from zoosim.worlds.fitted.shop import FittedShop


ROW_BYTES, FEATURE_BYTES = 900, 32
"""What a fit takes for each row and each of its features beside the log, at least: most for draws of held-out rows."""

ADVICE = "fit it to fewer rows, such as the latest"


def fit_products(
    log: Any,
    out: str | os.PathLike[str] | None,
    *,
    reward: str | None,
    data: str | os.PathLike[str] | None,
    seed: int,
    gone_after: float | None,
    skip_bad: bool,
    progress: "Progress",
) -> "tuple[FittedShop, Checks] | LookAhead":
    """Fit a shop in which visitors see one product, or a model of visitors who come back; see `zoosim.fit_world`.

    Args:
        log: A log of products, as `open_log` takes it.
        out: Folder for the world, its page and its figures; None for none.
        reward: Column of the reward; None for the log's objective.
        data: The folder of the Open Bandit Dataset, for a log of it.
        seed: Seed of all draws.
        gone_after: Days without a visit after which a visitor has gone for good: asks for visitors who come back.
        skip_bad: Whether invalid rows are dropped and counted, rather than refused.
        progress: Called with lines about how far it is.

    Returns:
        The shop, and the checks of it by held-out rows; of a log of lives, or with `gone_after`, a `LookAhead`.

    Raises:
        ConfigError: an option does not go with the log, the fit takes more memory than is left, or the folder cannot
            be written to.
        DataError: the log cannot be read, does not fit in memory, or its numbers cannot be computed with.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.fit_visitors import fit_visitors
    from zoosim.api.logs import writable_folder
    from zoosim.api.served import open_log
    from zoosim.api.streaming import is_streamed
    from zoosim.core.action_space import PRODUCTS
    from zoosim.fitting import check_fit, fit_shop
    from zoosim.fitting.fit import MOST_ROWS, OBJECTIVE, with_reward
    from zoosim.logs.log import Log
    from zoosim.logs.schema import READ

    if reward in READ and reward != OBJECTIVE:
        raise ConfigError(f"reward: got {shown(reward)}, which is no reward, expected a column of what visits earn")
    if is_streamed(log, None, {}, {}, {}):
        why = "takes more memory than is left, and fit-world goes over all rows many times, so it reads logs whole"
        raise DataError(f"{log}: {why}; {ADVICE}")
    columns = [] if reward in (None, OBJECTIVE) or isinstance(log, Log) else [reward]
    loaded = open_log(log, action_space=PRODUCTS, columns=columns, data=data, skip_bad=skip_bad)
    rewarded = with_reward(loaded, reward)
    if gone_after is not None or loaded.lives is not None:
        return fit_visitors(rewarded, out, gone_after=gone_after, seed=seed, progress=progress)
    n_bytes = len(rewarded) * (ROW_BYTES + FEATURE_BYTES * rewarded.features.shape[1])
    check_memory(n_bytes, f"fit-world: a fit to {len(rewarded):,} rows", ADVICE)
    # Before minutes of work, which a folder that cannot be written to would waste.
    folder = None if out is None else writable_folder(out, "held_out")
    with threadpool_limits(1), _computable(rewarded):  # with more, the last digits depend on how many there are
        models = fit_shop(rewarded, reward=reward or OBJECTIVE, seed=seed, progress=progress)
        checks = check_fit(rewarded, models, seed=seed, progress=progress)
    # Only now: the checks are of the shop that all rows were fitted to.
    shop = models.shop.thinned(MOST_ROWS)
    if folder is not None:
        _write_world(folder, shop, checks)
    return shop, checks


@contextmanager
def _computable(log: "Log") -> Iterator[None]:
    """Turn numbers that overflow, and matrices without an inverse, into one line about the log: `DataError`."""
    import numpy as np

    try:
        # Overflow alone: a chance that underflows to 0 is as good as 0.
        with np.errstate(over="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        sizes = np.abs(log.rewards[log.rewards != 0.0])
        raise DataError(
            f"{log.source}: rewards from {sizes.min():g} to {sizes.max():g} in size, or features as far apart, cannot "
            f"be computed with ({error}); scale them, or leave out what is no reward"
        ) from error


def _write_world(folder: Path, shop: "FittedShop", checks: "Checks") -> None:
    from zoosim.report.fit import build_page
    from zoosim.report.sections import render_sections
    from zoosim.worlds.fitted.file import save_world

    file = folder / "shop.world"
    summary = json.dumps({"schema_version": 2, **shop.facts, **checks.summary}, indent=1, allow_nan=False)
    question = f"What shop wrote {shop.facts['log']}?"
    page = render_sections("A world from a log", question, build_page(shop, checks), ["zoosim", "run", str(file)])
    save_world(shop, file)  # once all that goes beside it is made, so that a world and its page belong together
    write_text(folder / "summary.json", summary + "\n")
    write_text(folder / "report.html", page)
