"""How often intervals of values held the truth, by policy and verdict."""

from collections.abc import Sequence

import numpy as np

from studies.served_values.measuring import ESTIMATORS, SERVED, TARGETS, Row
from zoosim.core.statistics import share_intervals
from zoosim.off_policy.verdict import TRUST
from zoosim.report.sections import Page, PageTable

TERMS = {
    "served": "The models of the arms as they began: from then on both learn, so that what was shown is a mixture of "
    "policies that change.",
    "never served": "Models that decided for nobody, trained on other logs of the shop, and uniform choices.",
}


def build_page(rows: Sequence[Row]) -> Page:
    """Build the page."""
    return Page(answer(rows), [_coverage(rows), _by_verdict(rows)], terms=TERMS)


def answer(rows: Sequence[Row]) -> str:
    """Return how often intervals hold the truth."""
    by_ips = [row.holds for row in rows if row.estimator == ESTIMATORS[0]]
    trusted = [row.holds for row in rows if row.verdict == TRUST]
    return (
        f"{sum(by_ips)} of {len(by_ips)} intervals by IPS hold the truth; of all that are given `{TRUST}` "
        f"{sum(trusted)} of {len(trusted)} ({np.mean(trusted) if trusted else 0.0:.1%})."
    )


def _coverage(rows: Sequence[Row]) -> PageTable:
    cells = []
    for policy in TARGETS:
        group = "served" if policy in SERVED else "never served"
        cells.append((policy, group, *(_share(_of(rows, policy, estimator)) for estimator in ESTIMATORS)))
    runs = len({row.seed for row in rows})
    caption = f"Intervals of 95% that hold the truth, in {runs} runs per policy; in brackets with verdict `{TRUST}`."
    return PageTable("Intervals that hold the truth", ("policy", "", *ESTIMATORS), cells, 2, caption, printed=True)


def _by_verdict(rows: Sequence[Row]) -> PageTable:
    cells = []
    for verdict in sorted({row.verdict for row in rows}):
        holds = [row.holds for row in rows if row.verdict == verdict]
        low, high = share_intervals(np.array([sum(holds)]), len(holds))
        interval = f"{np.mean(holds):.1%} ({low[0]:.1%} to {high[0]:.1%})"
        cells.append((verdict, f"{len(holds)}", f"{sum(holds)}", interval))
    caption = "All estimators; those of one run and policy are much alike, and the interval takes them for independent."
    return PageTable("By verdict", ("verdict", "intervals", "hold", "share"), cells, 1, caption, printed=True)


def _of(rows: Sequence[Row], policy: str, estimator: str) -> list[Row]:
    return [row for row in rows if (row.policy, row.estimator) == (policy, estimator)]


def _share(rows: Sequence[Row]) -> str:
    trusted = [row for row in rows if row.verdict == TRUST]
    held = sum(row.holds for row in trusted)
    return f"{sum(row.holds for row in rows)} of {len(rows)} ({held} of {len(trusted)})"
