"""The page of what a log of visitors who come back says of looking ahead."""

from zoosim.fitting.look_ahead import MOST_CLICKS, LookAhead
from zoosim.report.sections import Page, PageTable
from zoosim.worlds.facts import ENOUGH

TERMS = {
    "next click": "Shows what is clicked most now, by all that the model knows of the visitor.",
    "what disappoints": "Kinds of products after clicks on which fewer visitors come back than after others.",
    "optimum": "The most clicks of a visitor's whole life that a policy can have in the model (policy iteration).",
    "kept sum": "Goes up by one with a click on what satisfies, down by one with a click on what disappoints, and "
    "stays between two ends. It stands for how satisfied a visitor is, which nobody sees.",
    "95% interval": "The middle 95% of models that the log allows, drawn from the posterior and solved exactly.",
}


def build_page(found: LookAhead) -> Page:
    """Return the page of an answer."""
    tables = []
    details = [f"{found.facts['returned']:,} visitors came back after {found.facts['visits_ended']:,} visits."]
    if found.shares is not None:
        table = found.table()
        tables.append(PageTable(table.title, [column.head.replace("\n", " ") for column in table.columns], table.rows))
        tables.append(_laws(found))
        details.append(f"A policy is called enough from {ENOUGH:.0%} of the optimum on, by its whole interval.")
    return Page(found.answer, tables, (), TERMS, details)


def _laws(found: LookAhead) -> PageTable:
    rows = [
        ("a visit goes on after a decision", f"{found.goes_on:.3f}"),
        (f"a click of the visit adds to the logit of a return ({MOST_CLICKS} count)", f"{found.by_click:+.3f}"),
        (f"a step of the kept sum adds (from -{found.end} to {found.end})", f"{found.by_satisfaction:+.3f}"),
        ("kinds that disappoint", "; ".join(found.disappointing) or "none"),
    ]
    return PageTable("What was estimated", ("law", "estimate"), rows)
