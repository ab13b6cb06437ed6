"""The page of a shop whose visitors come back: the ladder, and when teasers are shown."""

import shlex
from collections.abc import Mapping

import plotly.graph_objects as go

from zoosim.descriptions.sessions import SessionsDescription
from zoosim.report.ladder import ladder_figure, levels_figure
from zoosim.report.sections import Drawing, Page, PageTable, render_sections
from zoosim.worlds.facts import ENOUGH

TERMS = {
    "myopic": "Shows what is clicked most now; it knows all click chances and the visitor's whole state.",
    "best for this visit": "Plans the clicks of one visit, and takes its end for the end of all.",
    "shaped bandit": "A myopic policy whose reward is click x (1 + w x change of satisfaction), the best w; felt: no "
    "change counts where satisfaction cannot rise or fall any more.",
    "persona and last click": "The best that sees these two: no change of one decision makes it better.",
    "persona guessed": "Does not see the persona: it begins with the personas' shares, and moves its belief by each "
    "click and each decision without one (Bayes' rule). Simulated: ± is a standard error. QMDP shows what brings the "
    "most if the persona were known from the next decision on (Littman, Cassandra & Kaelbling 1995).",
    "optimum": "The most clicks of a visitor's whole life that a policy can have, by policy iteration (Howard 1960).",
    "teaser": "A product that is clicked more readily and disappoints.",
    "% clicked": "Clicks per decision. It may rank policies otherwise than clicks of a visitor do: then an A/B test of "
    "decisions picks the wrong winner.",
}


def session_figures(shop: SessionsDescription) -> dict[str, go.Figure]:
    """Draw 'ladder', the worth of each policy, and 'teasers', when they are shown."""
    ladder = ladder_figure(
        [rung.policy for rung in shop.ladder],
        [rung.share for rung in shop.ladder],
        [f"{rung.clicks:.2f} clicks of a visitor" for rung in shop.ladder],
        ENOUGH,
    )
    return {"ladder": ladder, "teasers": levels_figure(shop.teasers, "decisions with a teaser")}


def render_sessions(
    shop: SessionsDescription, figures: Mapping[str, go.Figure], title: str, command: str, config_yaml: str
) -> str:
    """Render one self-contained HTML page."""
    question = "A shop whose visitors come back by what they were shown: does it pay to look ahead?"
    page = _build_page(shop, figures)
    return render_sections(title, question, page, shlex.split(command), configuration=config_yaml)


def _build_page(shop: SessionsDescription, figures: Mapping[str, go.Figure]) -> Page:
    table = shop.table()
    heads = [column.head.replace("\n", " ") for column in table.columns]
    tables = [PageTable(table.title, heads, table.rows), _personas(shop)]
    if len(shop.periods) > 1:
        tables.append(periods_table(shop))
    drawings = [
        Drawing(
            "What policies are worth",
            f"In % of the most clicks that a visitor can bring; the line is where a policy is enough, {ENOUGH:.0%}.",
            figures["ladder"],
        ),
        Drawing(
            "When teasers are shown",
            "Share of decisions with a teaser, by how satisfied the visitor is.",
            figures["teasers"],
        ),
    ]
    return Page(shop.answer, tables, drawings, TERMS)


def _personas(shop: SessionsDescription) -> PageTable:
    rows = [
        (name, f"{share:.1%}", f"{optimum:.2f}", f"{myopic:.1%}")
        for name, (share, optimum, myopic) in shop.personas.items()
    ]
    return PageTable("By persona", ("persona", "of visitors", "clicks at the optimum", "myopic, % of it"), rows)


def periods_table(shop: SessionsDescription) -> PageTable:
    """Tabulate what is worth how much after each shock."""
    rows = [
        (f"{period.start:,}", period.name, f"{period.optimum:.2f}", f"{period.myopic:.1%}", f"{period.stale:.1%}")
        for period in shop.periods
    ]
    heads = ("from visitor", "shock", "optimum, clicks", "myopic, % of it", "optimum of the opening, % of it")
    return PageTable("After each shock", heads, rows, n_text=2)
