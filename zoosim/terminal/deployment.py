"""Printed deployments: which arm decides for whom, and what was changed last."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from zoosim.core.tables import table_of_rows
from zoosim.terminal.output import print_lines, print_table

CHANGES = 5
"""Changes that are printed, the newest."""

DIGITS = 8
"""Characters of a digest that are printed."""


def print_deployment(deployment: Mapping[str, Any], *, wide: bool = False) -> None:
    """Print the arms of a service, their models, and the newest changes."""
    rows = [
        (name, f"{arm['share']:.1%}", arm["role"], arm["policy"], arm["model"][:DIGITS], _learned(arm))
        for name, arm in deployment["arms"].items()
    ]
    heads = ("arm", "share", "role", "policy", "model", "decisions\nlearned")
    print_table(table_of_rows("What decides", heads, rows, n_text=5), wide=wide)
    if deployment["frozen"]:
        print_lines(["Learning is frozen: decisions are logged, and not learned. `zoosim deploy unfreeze` ends that."])
    if deployment["launch"] is not None:
        _print_launch(deployment["launch"], wide)
    models = [(digest[:DIGITS], *_facts(model)) for digest, model in deployment["models"].items()]
    if models:
        heads = ("model", "state", "policy", "rows", "who", "came")
        print_table(table_of_rows("Models", heads, models, n_text=6, essential=3), wide=wide)
    print_lines([_sentence(change) for change in deployment["history"][:CHANGES]])


def _print_launch(launch: Mapping[str, Any], wide: bool) -> None:
    """Print how a launch stands, and what it earned beside the champion."""
    report = launch["report"]
    sentence = launch["reason"] or (report["sentence"] if report else "nothing is known of it yet")
    print_lines([f"Launch of {launch['arm']}: {launch['state']}. {sentence[0].upper()}{sentence[1:]}"])
    if report is None:
        return
    heads = ("reward", "role", "difference\nper visitor", "99% interval", "champion", "margin")
    rows = [_metric_row(each) for each in report["metrics"]]
    print_table(table_of_rows(f"{report['visitors']:,} visitors", heads, rows, n_text=2, essential=4), wide=wide)
    print_lines([check["sentence"] for check in report["checks"]])


def _metric_row(metric: Mapping[str, Any]) -> tuple[str, ...]:
    figures = {name: _number(metric[name]) for name in ("difference", "low", "high", "champion", "margin")}
    interval = f"{figures['low']} to {figures['high']}"
    return metric["reward"], metric["role"], figures["difference"], interval, figures["champion"], figures["margin"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _learned(arm: Mapping[str, Any]) -> str:
    return f"{arm['learned'].get('learned', 0):,}"


def _facts(model: Mapping[str, Any]) -> Sequence[str]:
    return model["state"], model["policy"], f"{model['rows']:,}", model["who"], _time(model["came"])


def _sentence(change: Mapping[str, Any]) -> str:
    who = f" by {change['who']}" if change["who"] else ""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in change["shares"].items())
    beside = f"; beside the champion {shares}" if shares else ""
    return f"{_time(change['time'])}{who}: {change['why'] or 'began'}{beside}."


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
