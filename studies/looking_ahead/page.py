"""What myopia and the best rules are worth over each number of the laws, and in large shops drawn at random."""

from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.looking_ahead.measuring import DRAWN, LAWS, Solved, best_rule, is_default
from studies.writing import extremes, told
from zoosim.descriptions.sessions import FOLLOWS_A_RULE, LOOKS_AT_CLICKS, PLANS, PLANS_A_VISIT
from zoosim.report.drawing import COLORS, GREYS, INK, MUTED, axis_style, grid_of, layout_style, panel_of
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.sessions.truth import RULES

MYOPIC, NO_TEASERS, SHAPED, BEST = "myopic", "no teasers", "shaped bandit, felt", "best rule"
ADVICE = {
    LOOKS_AT_CLICKS: "a bandit is enough",
    FOLLOWS_A_RULE: "a rule is enough",
    PLANS_A_VISIT: "planning a visit is enough",
    PLANS: "planning pays",
}
TERMS = {
    "optimum": "Expected clicks of a new visitor, from the first decision to the last, under the best policy, which "
    "knows all laws and every visitor's state: exact, by policy iteration.",
    "myopic": "Shows what is most likely to be clicked now, and knows all chances: what bandits learn.",
    "no teasers": "The same, without teasers.",
    "shaped bandit, felt": "Shows the most of click x (1 + w x change of satisfaction), where a change counts that is "
    "felt, with the best weight w.",
    "best rule": "The best of the policies that plan nothing: " + ", ".join(RULES) + ".",
    "planning pays": "Neither myopia nor a rule nor planning within a visit has 95% of the optimum.",
}
ACROSS = 2
PANEL_HEIGHT = 230


def build_page(rows: Sequence[Solved]) -> Page:
    """Build the page."""
    by_law = [row for row in rows if row.law != DRAWN]
    drawn = [row for row in rows if row.law == DRAWN]
    drawing = Drawing(
        "By which laws does it pay to look ahead?",
        "% of each shop's optimum over one number of the laws, all others at their defaults; a dotted line at the "
        "default, and one at the 95% from which a simpler policy is enough. All exact.",
        _figure(by_law),
    )
    tables = [_table(by_law), _drawn_table(drawn), _sentences(rows)]
    return Page(answer(by_law), tables, [drawing], TERMS, details=[detail(drawn)])


def answer(rows: Sequence[Solved]) -> str:
    """Return in how many shops planning pays."""
    shops = _distinct(rows)
    counts = Counter(row.advice for row in shops)
    by_advice = ", ".join(f"{words} in {counts[advice]}" for advice, words in ADVICE.items() if counts[advice])
    return f"Print the ladder of your own shop first: of {len(shops)} sets of laws, {by_advice}."


def detail(rows: Sequence[Solved]) -> str:
    """Say what planning brings in drawn shops."""
    pays = sum(row.advice == PLANS for row in rows)
    shaped = extremes([row.shares[SHAPED] for row in rows], 1, percent=True)
    return (
        f"In {len(rows)} large shops drawn at random planning pays in {pays}: a bandit whose reward is shaped by the "
        f"satisfaction that is felt has {shaped}% of the optimum."
    )


def _distinct(rows: Sequence[Solved]) -> list[Solved]:
    """Return the shops, that of the defaults once and first."""
    defaults = [row for row in rows if is_default(row)]
    return [*defaults[:1], *(row for row in rows if not is_default(row))]


def _label(row: Solved) -> str:
    return "defaults" if is_default(row) else f"{row.law} {row.number:g}"


def _table(rows: Sequence[Solved]) -> PageTable:
    cells = [
        (
            _label(row),
            ADVICE[row.advice],
            f"{row.optimum:.2f}",
            *(f"{100.0 * row.shares[name]:.1f}" for name in (MYOPIC, NO_TEASERS, SHAPED)),
            f"{100.0 * best_rule(row, list(RULES)):.1f}",
        )
        for row in _distinct(rows)
    ]
    heads = ("shop", "what it takes", "optimum", MYOPIC, NO_TEASERS, SHAPED, BEST)
    caption = "Clicks of a new visitor under the best policy, and % of them under simpler ones. All exact."
    return PageTable("When does it pay?", heads, cells, n_text=2, caption=caption)


def _drawn_table(rows: Sequence[Solved]) -> PageTable:
    figures = {name: [row.shares[name] for row in rows] for name in (MYOPIC, NO_TEASERS, SHAPED)}
    figures[BEST] = [best_rule(row, list(RULES)) for row in rows]
    cells = [
        (name, told(values, 1, percent=True), extremes(values, 1, percent=True)) for name, values in figures.items()
    ]
    caption = "Mean over shops with a 95% interval, and the least and the most. Each shop's figures are exact."
    heads = ("policy", "% of the optimum", "from, to")
    heading = f"{len(rows)} shops of 10 personas and 25 categories, drawn at random"
    return PageTable(heading, heads, cells, caption=caption, printed=True)


def _sentences(rows: Sequence[Solved]) -> PageTable:
    shops = _distinct([row for row in rows if row.law != DRAWN])
    cells = [(_label(row), row.sentence) for row in shops]
    cells += [(f"drawn, seed {row.number:g}", row.sentence) for row in rows if row.law == DRAWN]
    return PageTable("In words", ("shop", "does planning pay?"), cells, n_text=2, folded=True)


def _figure(rows: Sequence[Solved]) -> go.Figure:
    laws = list(dict.fromkeys(row.law for row in rows))
    n_rows, columns = grid_of(len(laws), ACROSS)
    gaps = {"horizontal_spacing": 0.06, "vertical_spacing": 0.4 / n_rows if n_rows > 1 else None}
    figure = make_subplots(n_rows, columns, subplot_titles=laws, shared_yaxes=True, **gaps)
    for place, law in enumerate(laws):
        _add_panel(figure, [row for row in rows if row.law == law], panel_of(place, len(laws), ACROSS))
    legend = {"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0, "font": {"color": MUTED}}
    margin = {"l": 64, "r": 16, "t": 96, "b": 40}
    height = n_rows * PANEL_HEIGHT + 130
    figure.update_layout(**layout_style(height=height, margin=margin, showlegend=True, legend=legend))
    figure.update_annotations(font={"size": 12, "color": INK})
    figure.update_xaxes(**axis_style())
    figure.update_yaxes(**axis_style(), range=[20, 104])
    figure.update_yaxes(title_text="% of the optimum", col=1)
    return figure


def _add_panel(figure: go.Figure, rows: Sequence[Solved], panel: dict[str, int]) -> None:
    numbers = [row.number for row in rows]
    lines = {
        MYOPIC: [row.shares[MYOPIC] for row in rows],
        NO_TEASERS: [row.shares[NO_TEASERS] for row in rows],
        BEST: [best_rule(row, list(RULES)) for row in rows],
    }
    for color, (name, shares) in zip(COLORS, lines.items(), strict=False):
        figure.add_scatter(
            x=numbers,
            y=[100.0 * share for share in shares],
            mode="lines+markers",
            line={"color": color, "width": 2},
            marker={"color": color, "size": 6},
            name=name,
            showlegend=panel == {"row": 1, "col": 1},
            hovertemplate=f"{name}, %{{x:g}}: %{{y:.1f}}%<extra></extra>",
            **panel,
        )
    dotted = {"color": GREYS[0], "width": 1, "dash": "dot"}
    figure.add_hline(y=95, line=dotted, **panel)
    figure.add_vline(x=LAWS[rows[0].law].default, line=dotted, **panel)
