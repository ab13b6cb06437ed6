"""Train a retriever: which of many products to rank for whom, learned from a log."""

import os
from typing import TYPE_CHECKING

from zoosim.core.calls import automatic_progress, public_call

if TYPE_CHECKING:
    import polars as pl

    from zoosim.core.types import Progress
    from zoosim.logs.log import Log
    from zoosim.retrieval.towers.retriever import Retriever

SHARE = 0.8
"""Share of the rows whose retriever the later ones judge."""

CANDIDATES, WIDTH = 500, 32


@public_call
def train_retriever(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    out: str | os.PathLike[str] | None = None,
    *,
    reward: str | None = None,
    candidates: int = CANDIDATES,
    width: int = WIDTH,
    passes: int | None = None,
    share: float = SHARE,
    seed: int = 0,
    skip_bad: bool = False,
    progress: "Progress | None" = automatic_progress,
) -> "Retriever":
    """Train two towers on a log: a vector per product, and a query per visitor.

    The log odds of a click are the inner product of both. Every row that was shown counts, clicked or not. Each product
    has a vector of its own, shrunk towards what its features say by as much as the rows ask for, so a product that was
    never shown has one, too. First a retriever of the earlier rows is judged by the later ones, beside plain rules;
    the one that is returned has learned from all rows.

    Args:
        log: A Parquet file of Records, such as `zoosim import` writes, the folder of a service or the address of its
            log (`redis://...`), or a `Log`; of products or rankings, whose reward is 0 or 1.
        out: The file to write the retriever to, ending in `.retriever`.
        reward: Which of the log's rewards by name is the click; its objective if left out.
        candidates: How many products are retrieved to judge it, 1 to 100,000; at most a tenth of all are.
        width: Numbers of a vector beside its bias, 1 to 256.
        passes: How often each row is taken, 1 to 100; if left out, once, or so often that 400,000 rows are taken, up to
            10 times.
        share: Share of the rows, the earliest by time, that it learns from to be judged; from 0.1 to 0.9.
        seed: Seed of all draws.
        skip_bad: Leave bad rows out instead of refusing the log.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Returns:
        The retriever; it shows what the later rows say.

    Raises:
        ConfigError: an option is invalid, or the log has no such reward.
        DataError: the log is bad, has too few rows, or its reward is something else than 0 and 1.
    """
    assert progress is not None  # `public_call` sees to that
    from threadpoolctl import threadpool_limits

    from zoosim.api.served import open_log
    from zoosim.core.checks import check_number, check_whole
    from zoosim.core.files import checked_file
    from zoosim.off_policy.retrievers.training import train_on_log
    from zoosim.retrieval.towers.fitting import Settings, enough_passes
    from zoosim.retrieval.towers.retriever import SUFFIX

    if out is not None:
        out = checked_file("retriever", out, SUFFIX).absolute()
    check_whole("candidates", candidates, 1, 100_000)
    check_number("share", share, 0.1, 0.9)
    check_whole("seed", seed, 0, 2**63 - 1)
    check_whole("width", width, 1, 256)
    if passes is not None:
        check_whole("passes", passes, 1, 100)
    loaded = open_log(log, skip_bad=skip_bad)
    settings = Settings(width=width, passes=passes or enough_passes(len(loaded) * loaded.n_positions))
    with threadpool_limits(1):  # with more, the last digits depend on how many there are
        retriever = train_on_log(
            loaded, settings, reward=reward, share=share, k=candidates, seed=seed, progress=progress
        )
    if out is not None:
        retriever.save(out)
    return retriever
