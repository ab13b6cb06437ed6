"""The page of a shop whose discounts lure: the ladder, and how much discount is shown to whom."""

import shlex
from collections.abc import Mapping

import plotly.graph_objects as go

from zoosim.descriptions.lure import LureDescription
from zoosim.report.ladder import ladder_figure, levels_figure
from zoosim.report.sections import Drawing, Page, PageTable, render_sections
from zoosim.worlds.facts import ENOUGH

TERMS = {
    "myopic": "Boosts whose page earns most at this visit; all laws are known.",
    "random": "Boosts drawn anywhere at each visit; by 100,000 of them.",
    "best boosts": "Those that bring most of all that never change, for all visitors or for those of a segment.",
    "no discounts": "The page that earns most of those with the least discounts.",
    "shaped": "A myopic policy whose reward is EUR + w x expected change of satisfaction, the best w; felt: a change "
    "counts where levels leave room for it.",
    "optimum": "The most EUR of a visitor's whole life that boosts can bring: all rankings that they can make are "
    "found, and the best in each state follows by policy iteration (Howard 1960).",
    "lure": "Visitors click and buy by the utility of a product and its discount; they are pleased by the utility "
    "alone.",
}


def lure_figures(shop: LureDescription) -> dict[str, go.Figure]:
    """Draw 'ladder', the worth of each policy, and 'discounts', how much of them is shown."""
    ladder = ladder_figure(
        [rung.name for rung in shop.ladder],
        [rung.share for rung in shop.ladder],
        [f"{rung.worth:.2f} EUR of a visitor" for rung in shop.ladder],
        ENOUGH,
    )
    return {"ladder": ladder, "discounts": levels_figure(shop.discounts, "mean discount of a page")}


def render_lure(
    shop: LureDescription, figures: Mapping[str, go.Figure], title: str, command: str, config_yaml: str
) -> str:
    """Render one self-contained HTML page."""
    question = "A shop whose discounts lure into what disappoints: does it pay to look ahead?"
    page = _build_page(shop, figures)
    return render_sections(title, question, page, shlex.split(command), configuration=config_yaml)


def _build_page(shop: LureDescription, figures: Mapping[str, go.Figure]) -> Page:
    table = shop.table()
    heads = [column.head.replace("\n", " ") for column in table.columns]
    segments = [
        (name, f"{share:.1%}", f"{optimum:.2f}", f"{myopic:.1%}")
        for name, (share, optimum, myopic) in shop.segments.items()
    ]
    tables = [
        PageTable(table.title, heads, table.rows),
        PageTable("By segment", ("segment", "of visitors", "EUR at the optimum", "myopic, % of it"), segments),
    ]
    drawings = [
        Drawing(
            "What boosts are worth",
            f"In % of the most EUR that a visitor can bring; the line is where a policy is enough, {ENOUGH:.0%}.",
            figures["ladder"],
        ),
        Drawing(
            "How much discount is shown",
            "Mean discount of the products on a page, by how satisfied the visitor is.",
            figures["discounts"],
        ),
    ]
    return Page(shop.answer, tables, drawings, TERMS)
