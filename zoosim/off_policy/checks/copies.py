"""Rows that are there more than once."""

import numpy as np
import polars as pl

from zoosim.off_policy.checks.probe import Probe, row_keys
from zoosim.off_policy.verdict import VerdictReasons

ERRORS = 5.0
LEAST_SHARE = 0.005
"""Standard errors by which pairs of same rows must exceed chance, and least share of copies in the rows."""

GRAVE_SHARE = 0.2
"""Share of copies from which on intervals are far too narrow."""

MOST_ROWS = 50_000
"""Rows that are compared; of larger logs, all rows of some contexts."""


def check_copies(findings: VerdictReasons, probe: Probe) -> None:
    """Name exact copies: pairs of rows alike in all that is logged, beyond those that chance brings.

    Two visits of one context, drawn independently, have the same action with the probability of the first one's.
    """
    log = probe.log
    context = probe.visitor_keys
    for column in (log.candidate_set, log.positions, log.user_ids, log.times):
        if column is not None:
            context = row_keys(column, context)
    n = len(log)
    rows = np.arange(n)
    if n > MOST_ROWS:
        # By the hash of the context: rows that may be copies of one another are all taken, or none.
        rows = np.flatnonzero(context % (n // MOST_ROWS + 1) == 0)
        if not MOST_ROWS / 4 < len(rows) < 4 * MOST_ROWS:  # there are but few contexts
            rows = np.arange(MOST_ROWS)
    context = context[rows]
    whole = context
    for values in (log.actions, log.propensities, log.rewards):
        whole = row_keys(values[rows], whole)
    if len(rows) - pl.Series(whole).n_unique() < LEAST_SHARE * len(rows):
        return
    order = np.argsort(context, kind="stable")
    first = order[:-1]
    second = order[1:]
    is_pair = context[first] == context[second]
    first = first[is_pair]
    second = second[is_pair]
    chance = log.propensities[rows[first]]
    excess = float((whole[first] == whole[second]).sum() - chance.sum())
    error = float(np.sqrt((chance * (1.0 - chance)).sum() + 1.0))
    if excess <= ERRORS * error:
        return
    # Of the pairs that are no copies, some are alike by chance, too.
    share = excess / (1.0 - float(chance.mean())) / len(rows)
    if share <= LEAST_SHARE:
        return
    is_copy = np.zeros(n, bool)
    is_copy[rows[second[whole[first] == whole[second]]]] = True
    reason = f"copies: {100 * share:.1f}% of the rows repeat another row in all that is logged"
    findings.add(
        f"{reason}, more than chance brings; count each decision once{probe.rows_in_words(is_copy)}",
        useless=share > GRAVE_SHARE,
    )
