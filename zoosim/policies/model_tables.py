"""A trained model as tables of text: what it was trained on, what it takes, how well it did."""

from typing import TYPE_CHECKING

from zoosim.core.number_format import with_interval
from zoosim.core.tables import Column, Table, table_of_rows
from zoosim.policies.base import policy_name

if TYPE_CHECKING:
    from zoosim.policies.model import Model

MOST_NAMES = 5
"""Products that are named."""


def headline(model: "Model") -> str:
    """Say in a line what a model is."""
    name = policy_name(type(model.policy))
    return f"Model of {name}, trained on {model.rows:,} rows of {model.facts.get('log', 'an unknown log')}"


def model_tables(model: "Model") -> list[Table]:
    """Return what is known of a model: the facts, and what later rows say of it, if that is known."""
    tables = [_facts_table(model)]
    results = model.facts.get("judged", {}).get("results", [])
    if results:
        tables.append(_results_table(results))
    return tables


def _facts_table(model: "Model") -> Table:
    names = model.catalogue.names
    first = ", ".join(names[:MOST_NAMES])
    products = f"{len(names):,}: {first}{', ...' if len(names) > MOST_NAMES else ''}" if names else "none"
    rows = [
        ("policy", policy_name(type(model.policy))),
        ("learns online", "yes" if model.policy.learns_from_rewards else "no, from logs alone"),
        ("trained on", f"{model.rows:,} rows of {model.facts.get('log', 'an unknown log')}"),
        ("period", _period(model)),
        ("objective", _objective(model)),
        ("visitor's features", ", ".join(model.fitted.visitors.names) or "none"),
        ("product's features", ", ".join(model.fitted.products.names) or "none"),
        ("products", products),
        *(("constraint", report.sentence) for report in getattr(model.policy, "constraints", ())),
    ]
    return table_of_rows("", ("", "what it is"), rows, n_text=2)


def _period(model: "Model") -> str:
    first, last = (model.facts.get(key) for key in ("first", "last"))
    return "not known: the log has no times" if first is None or last is None else f"{first[:10]} to {last[:10]}"


def _objective(model: "Model") -> str:
    """Say what it was trained to earn."""
    weights = {name: weight for name, weight in model.fitted.weights.items() if weight}
    return " + ".join(name if weight == 1.0 else f"{weight:g} x {name}" for name, weight in weights.items()) or "reward"


def _results_table(results: list[dict[str, object]]) -> Table:
    written = [with_interval(_number(row["value"]), *(_end(row[key]) for key in ("low", "high"))) for row in results]
    columns = (
        Column("estimator", [str(row["estimator"]) for row in results], is_text=True, is_essential=True),
        Column("value\nper visit", [each.value for each in written], is_essential=True),
        Column("interval", [each.interval for each in written], is_text=True, is_essential=True, stacks=True),
        Column("verdict", [str(row["verdict"]) for row in results], is_text=True, is_essential=True),
    )
    return Table("Judged by later rows of the log", columns)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _end(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
