"""Train a retriever on a log: judged by its later rows first, then learned from all of them."""

import numpy as np

from zoosim.core.types import IntArray, Progress
from zoosim.logs.log import Log
from zoosim.off_policy.groups import group_rows
from zoosim.off_policy.retrievers.judging import LaterRows, figures, row_propensities
from zoosim.off_policy.retrievers.rules import CATEGORIES, MOST_CATEGORIES, category_rule, popularity
from zoosim.off_policy.retrievers.shown import shown_rows
from zoosim.off_policy.training import earlier_and_later
from zoosim.retrieval.towers.fitting import Settings, fit_vectors
from zoosim.retrieval.towers.retriever import Retriever
from zoosim.retrieval.towers.rows import ShownRows
from zoosim.schema.values import product_key


def train_on_log(
    log: Log,
    settings: Settings,
    *,
    reward: str | None,
    share: float,
    k: int,
    seed: int,
    progress: Progress,
) -> Retriever:
    """Train a retriever on a log, after one on its earlier rows was judged by the later ones.

    Args:
        log: A log of products or of rankings.
        settings: How to train.
        reward: Which of its rewards is the click; None for the objective.
        share: Share of the rows, the earliest by time, that the retriever learns from which the later rows judge.
        k: How many candidates are retrieved to judge it.
        seed: Of all draws.
        progress: Called with lines about how far it is.

    Raises:
        ConfigError: the log has no such reward.
        DataError: the log cannot be learned from, or has too few rows.
    """
    rows = shown_rows(log, reward)
    earlier, later = earlier_and_later(log, share)
    judged = _judge(shown_rows(earlier, reward), shown_rows(later, reward), later, settings, k, seed, progress)
    fitted = fit_vectors(rows, settings, seed=seed, progress=progress)
    facts = {
        "log": log.source,
        "rows": len(rows.clicked),
        "clicks": int(rows.clicked.sum()),
        "never_shown": int(rows.n_products - len(np.unique(rows.product))),
        "seed": seed,
        **settings._asdict(),
        "spreads": fitted.spreads,
        "judged": judged,
    }
    ids = _ids(log)
    names = (*log.names, *log.other_names) if log.names else ()
    return Retriever(ids, fitted.vectors, fitted.towers.visitors, fitted.towers.products, names, log.fitted, facts)


def _judge(
    earlier: ShownRows, later: ShownRows, log: Log, settings: Settings, k: int, seed: int, progress: Progress
) -> dict[str, object]:
    """Return what came of the later rows by a retriever of the earlier ones, and by plain rules, as plain values."""
    propensities = row_propensities(log.propensities if log.marginals is None else log.marginals, later.visit)
    k = min(k, max(later.n_products // 10, 1))
    judge = LaterRows(later, propensities, k, rng=np.random.default_rng([seed, 1]))
    progress("learning the plain rules")
    rules = [popularity(earlier), category_rule(earlier, _categories(log, earlier))]
    fitted = fit_vectors(earlier, settings, seed=seed, progress=progress)
    progress("judging by the later rows")
    visitors = fitted.towers.visitors.vectors(later.visitors)
    queries = np.column_stack([visitors, np.ones(len(visitors), np.float32)])
    ways = [judge.judge_vectors(fitted.vectors, queries, fitted.towers.positions), *map(judge.judge_rule, rules)]
    return {
        "k": k,
        "rows": len(later.clicked),
        "clicks": len(judge.clicks),
        "weighed": judge.is_weighed,
        "ways": figures(ways),
    }


def _categories(log: Log, rows: ShownRows) -> IntArray:
    """Return the category of each product `(K,)`: the catalogue's, or where it has none, patterns of features."""
    if not log.categories or len(log.categories) < rows.n_products:
        return np.asarray(group_rows(rows.products, MOST_CATEGORIES, CATEGORIES).labels)
    return np.unique(np.array(log.categories), return_inverse=True)[1]


def _ids(log: Log) -> IntArray:
    """Return the ids of all products `(K,)`: those of the log, then of the others that its catalogue describes."""
    others = np.array([product_key(name) for name in log.other_names], np.int64)
    return np.concatenate([log.product_ids, others])
