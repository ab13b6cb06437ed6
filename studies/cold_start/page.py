"""The page of the study: how soon each policy finds the new products that are the best, and what that costs."""

from collections.abc import Sequence
from statistics import median

import plotly.graph_objects as go

from studies.cold_start.runs import KNOWN, NEW, PERIOD, WINDOW, ColdStart
from studies.figures import add_line
from studies.rows import rows_where, values_where
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "half of the traffic": f"Visits to the shop, since the new products came, until the product that is the best for a "
    f"segment was shown in half of the segment's last {WINDOW} visits; the median over segments of all seeds.",
    "found": "Share of segments in which that happened.",
    "clicks lost": "In expectation, by showing new products where the best known one is clicked more.",
    "others shown": "How often new products were shown that are not the best for the visitor.",
    "% of oracle": "True click rates of what was shown over those of the best product on sale since the new ones came; "
    "before: in the last half of the time without them.",
    "intervals": "In brackets, 95% over seeds (Student's t).",
}


def build_page(rows: Sequence[ColdStart]) -> Page:
    """Tell who finds new products, and at which cost."""
    policies = sorted(dict.fromkeys(row.policy for row in rows), key=lambda policy: _median_visits(rows, policy))
    n_seeds = len({row.seed for row in rows})
    heads = ("policy", "half of the traffic", "found", "clicks lost", "others shown", "before, %", "% of oracle")
    cells = [
        (
            policy,
            _visits_words(rows, policy),
            told([_share_found(row) for row in rows_where(rows, policy=policy)], 0, percent=True),
            *(
                told(values_where(rows, field, policy=policy), digits)
                for field, digits in (("lost", 0), ("new_shown", 0), ("before", 1), ("after", 1))
            ),
        )
        for policy in policies
    ]
    caption = f"{NEW} new products among {KNOWN:,}; clicks and visits are those of the time since they came."
    table = PageTable(f"{NEW} new products, {n_seeds} seeds", heads, cells, caption=caption)
    drawing = Drawing(
        "How soon does the best product get the traffic?",
        f"Share of visits that were shown the best product of the visitor's segment, in each {PERIOD} visits since the "
        f"new products came, with 95% intervals over {n_seeds} seeds.",
        _figure_of(rows, policies),
    )
    words = [f"{policy}: {_visits_words(rows, policy)} visits" for policy in policies]
    verdict = f"Until the best product for a segment has half of its traffic: {', '.join(words)}."
    return Page(answer(rows, policies[0]), [table], [drawing], TERMS, details=[verdict])


def answer(rows: Sequence[ColdStart], policy: str) -> str:
    """Return which policy to use where products come and go."""
    visits = _visits_words(rows, policy)
    return f"Use {policy} for new products: the best one has half of its segment's traffic after {visits} visits."


def _share_found(row: ColdStart) -> float:
    return sum(visits is not None for visits in row.visits) / len(row.visits)


def _median_visits(rows: Sequence[ColdStart], policy: str) -> float:
    """Return the median over segments of all seeds; infinite where most segments never got there."""
    found = [visits for row in rows_where(rows, policy=policy) for visits in row.visits]
    return float(median(float("inf") if visits is None else visits for visits in found))


def _visits_words(rows: Sequence[ColdStart], policy: str) -> str:
    visits = _median_visits(rows, policy)
    return f"more than {PERIOD * len(rows[0].traffic):,}" if visits == float("inf") else f"{visits:,.0f}"


def _figure_of(rows: Sequence[ColdStart], policies: Sequence[str]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=380, showlegend=True))
    figure.update_xaxes(**axis_style(), title_text="visits since the new products came")
    figure.update_yaxes(**axis_style(), title_text="share of visits", range=[0, 1])
    for number, policy in enumerate(policies):
        traffic = values_where(rows, "traffic", policy=policy)
        means = [mean_interval(shares) for shares in zip(*traffic, strict=True)]
        ends = [PERIOD * (place + 1) for place in range(len(means))]
        add_line(figure, ends, means, COLORS[number % len(COLORS)], policy, ".2f")
    return figure
