"""Printed deployments: which arm decides for whom, and what was changed last."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from zoosim.core.durations import DAY, HOUR, MICROSECONDS
from zoosim.core.errors import printable
from zoosim.core.number_format import counted
from zoosim.core.tables import table_of_rows
from zoosim.terminal.output import print_lines, print_table

CHANGES = 5
"""Changes that are printed, the newest."""

PAUSED = "paused"
CANNOT_TELL = "cannot tell yet"
RUNNING = ("running", CANNOT_TELL, PAUSED)
"""States of a launch in which it splits the visitors."""

DIGITS = 8
"""Characters of a digest that are printed."""


def print_deployment(deployment: Mapping[str, Any], *, wide: bool = False) -> None:
    """Print the arms of a service, their models, and the newest changes."""
    rows = [
        (name, f"{arm['share']:.1%}", arm["role"], arm["policy"], arm["model"][:DIGITS], _learned(arm), *_calls(arm))
        for name, arm in deployment["arms"].items()
    ]
    heads = ("arm", "share", "role", "policy", "model", "decisions\nlearned", "errors", "ms per\ndecision")
    print_table(table_of_rows("What decides", heads, rows, n_text=5, essential=3), wide=wide)
    print_lines([f"{name}: {floor}." for name, arm in deployment["arms"].items() for floor in arm.get("floors", [])])
    if deployment["frozen"]:
        print_lines(["Learning is frozen: decisions are logged, and not learned. `zoosim deploy unfreeze` ends that."])
    if deployment["rules"]:
        rules = "; ".join(f"{name} {value}" for name, value in deployment["rules"].items())
        print_lines([printable(f"Rules of the shop: {rules}.")])
    if deployment["launch"] is not None:
        launched = deployment["arms"].get(deployment["launch"]["arm"], {})
        _print_launch(deployment["launch"], "decisions" if launched.get("sticky") == "event" else "visitors", wide)
    for name, shadow in deployment["shadows"].items():
        _print_shadow(name, shadow, wide)
    if deployment.get("forecasts"):
        print_lines([f"{counted(deployment['forecasts'], 'forecast')}: `zoosim forecasts` says what came of them."])
    models = [(digest[:DIGITS], *_facts(model)) for digest, model in deployment["models"].items()]
    if models:
        facts = ("model", "state", "policy", "rows", "who", "came")
        print_table(table_of_rows("Models", facts, models, n_text=6, essential=3), wide=wide)
    print_lines(["Newest changes:", *(_sentence(change) for change in deployment["history"][:CHANGES])])


def _print_launch(launch: Mapping[str, Any], units: str, wide: bool) -> None:
    """Print how a launch stands, and what it earned beside the champion per visitor, or per decision."""
    report = launch["report"]
    steps = launch["plan"]["steps"]
    place = f"share {launch['step'] + 1} of {len(steps)} ({steps[launch['step']]:.1%}), since {_micro(launch['since'])}"
    lines = [f"Launch of {launch['arm']}: {launch['state']}; {place}."]
    if launch["reason"]:
        lines.append(f"Why: {launch['reason'].rstrip('.')}.")
    if launch["state"] in RUNNING:
        lines += [report["sentence"] if report else f"No {units[:-1]} counts yet.", *_next_share(launch, units)]
        lines += [f"Said beforehand: {sentence}" for sentence in launch.get("said", [])]
    print_lines([*map(printable, lines), ""])
    if report is None:
        return
    if report["visitors"]:
        heads = ("reward", "role", "difference", "99% interval", "champion", "margin")
        rows = [_metric_row(each) for each in report["metrics"]]
        title = f"{report['visitors']:,} {units}, figures per {units[:-1]}"
        print_table(table_of_rows(title, heads, rows, n_text=2, essential=4), wide=wide)
    print_lines([check["sentence"] for check in report["checks"]])


def _print_shadow(name: str, shadow: Mapping[str, Any], wide: bool) -> None:
    """Print how often a shadow would choose alike, and what it would have earned."""
    figures = {key: _number(shadow[key]) for key in ("earned", "value", "difference", "effective")}
    value = f"{figures['value']} ({_number(shadow['value_low'])} to {_number(shadow['value_high'])})"
    difference = f"{figures['difference']} ({_number(shadow['low'])} to {_number(shadow['high'])})"
    alike = "-" if shadow["agreement"] is None else f"{shadow['agreement']:.1%}"
    row = (value, figures["earned"], difference, alike, f"{shadow['effective']:,.0f}")
    heads = ("shadow", "champion", "difference", "alike", "effective\nsample")
    title = f"Shadow {name}: {shadow['decisions']:,} decisions of the champion, objective per decision"
    print_table(table_of_rows(title, heads, [row], n_text=0, essential=3), wide=wide)
    print_lines([shadow["sentence"], ""])


def _next_share(launch: Mapping[str, Any], units: str) -> list[str]:
    """Return in a sentence what a running launch waits for before its next share."""
    plan = launch["plan"]
    step = launch["step"]
    if launch["state"] == PAUSED:
        return ["It stays at this share until it goes on: `zoosim deploy resume`."] if launch["by_person"] else []
    hours = plan["hours"][step % len(plan["hours"])] if isinstance(plan["hours"], list) else plan["hours"]
    earliest = _micro(launch["since"] + hours * HOUR)
    report = launch["report"]
    so_far = report["step_visitors"] if report and report["step"] == step else 0
    after = f"{earliest} at the earliest, and after {plan['least']:,} {units} ({so_far:,} so far)"
    if step + 1 < len(plan["steps"]):
        return [f"Next: share {plan['steps'][step + 1]:.1%}, {after}."]
    return [_last_share(launch)]


def _last_share(launch: Mapping[str, Any]) -> str:
    """Return in a sentence how a launch at its last share ends."""
    plan = launch["plan"]
    line = "It is the last share: it ships, or is taken back, as soon as the evidence is there."
    if plan.get("most_days"):
        hours = plan["hours"][-1] if isinstance(plan["hours"], list) else plan["hours"]
        end = launch["since"] + hours * HOUR + plan["most_days"] * DAY
        return f"{line} At {_micro(end)} it is taken back where that cannot be told by then."
    if launch["state"] != CANNOT_TELL:
        return line
    arm = launch["arm"]
    wait = f"What is as good as the champion waits for ever, here since {_micro(launch['since'])}"
    return f"{line} {wait}: `zoosim deploy promote {arm}` or `rollback {arm}` ends it, `most_days` in a plan by itself."


def _micro(time: float) -> str:
    return _time(time / MICROSECONDS)


def _metric_row(metric: Mapping[str, Any]) -> tuple[str, ...]:
    figures = {name: _number(metric[name]) for name in ("difference", "low", "high", "champion", "margin")}
    interval = f"{figures['low']} to {figures['high']}"
    return metric["reward"], metric["role"], figures["difference"], interval, figures["champion"], figures["margin"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _learned(arm: Mapping[str, Any]) -> str:
    return f"{arm['learned'].get('learned', 0):,}"


def _calls(arm: Mapping[str, Any]) -> tuple[str, str]:
    """Return how often a policy failed since the service started, and how long a decision takes it."""
    if "seconds" not in arm:  # a service of an earlier release
        return "-", "-"
    return f"{arm['failed']:,}", f"{1_000.0 * arm['seconds']:.2f}"


def _facts(model: Mapping[str, Any]) -> Sequence[str]:
    return model["state"], model["policy"], f"{model['rows']:,}", model["who"], _time(model["came"])


def _sentence(change: Mapping[str, Any]) -> str:
    who = f" by {change['who']}" if change["who"] else ""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in change["shares"].items())
    beside = f"; beside the champion {shares}" if shares else ""
    # In one line, whatever it holds: else a reason could look like a change of somebody else.
    return printable(f"{_time(change['time'])}{who}: {change['why'] or 'began'}{beside}.")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
