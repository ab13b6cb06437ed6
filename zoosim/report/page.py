"""The report of a run as one HTML file that needs no network."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jinja2
import plotly.graph_objects as go
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from zoosim.report.data import ReportData, oriented, ranked, shock_names
from zoosim.report.drawing import policy_styles
from zoosim.report.figures import SIGNIFICANT, figures

CURVES = ("ctr", "share", "clicks", "regret")
FIRST = ("features",)
MISSING = "\u2013"
NBSP = "\u00a0"
_SCRIPT_SAFE = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def render_page(report: ReportData) -> str:
    """Render the report of a run as one self-contained HTML page: texts are escaped, plotly.js is inlined."""
    drawn = figures(report)
    parts = [(key, *_words(report)[key], _height(drawn[key])) for key in drawn]
    summary = report.summary
    template = environment().get_template("page.html")
    return template.render(
        title=report.title,
        report=report,
        summary=summary,
        policies={name: summary["policies"][name] for name in ranked(summary)},
        styles=policy_styles(summary["policies"], report.features),
        shock_names=shock_names(summary),
        pairs=[] if report.crowded else oriented(summary["pairs"]),
        curves=[part for part in parts if part[0] in CURVES],
        first=[part for part in parts if part[0] in FIRST],
        others=[part for part in parts if part[0] not in (*CURVES, *FIRST)],
        figures_json=figures_json(drawn),
        plotly_js=plotly_js(),
        significant=SIGNIFICANT,
        failures=_failures(summary["policies"]),
    )


def plotly_js() -> Markup:
    """Return the source of plotly.js."""
    return Markup(get_plotlyjs())


def environment() -> jinja2.Environment:
    """Return the templates' environment: everything escaped, nothing undefined."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("zoosim.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (percent, amount, signed, points, interval, amounts, count, p_value, duration, seed_list, breakable)
    environment.filters.update({function.__name__: function for function in filters})
    return environment


def figures_json(drawn: Mapping[str, go.Figure]) -> Markup:
    """Return figures as JSON in which no character can end the script element around it."""
    parts = (f'"{key}":{figure.to_json()}' for key, figure in drawn.items())
    return Markup(("{" + ",".join(parts) + "}").translate(_SCRIPT_SAFE))


def _height(figure: go.Figure) -> int:
    return int(figure.layout.height)


def _failures(policies: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"policy": name, **failure} for name, policy in policies.items() for failure in policy["failed"]]


def _words(report: ReportData) -> dict[str, tuple[str, str]]:
    """Return heading and caption of each figure."""
    seeds = len(report.summary["seeds"])
    line = f"A line is the mean of {seeds} seeds, its band the 95% interval." if seeds > 1 else "One seed, so no band."
    bars = "dots with their 95% intervals" if seeds > 1 else "one seed, so no intervals"
    shocks = " Dashed lines mark the shocks." if report.shocks else ""
    reward = report.reward_name
    share = report.reward_key == "ctr"
    when = "between shocks" if report.shocks else "over the stream"
    clicks = "clicks" if reward == "CTR" else "reward"
    end = f"last {_tail(report.summary):,} visits"
    step_back = " Thin grey lines are policies that learn nothing, the best of them named." if report.features else ""
    return {
        "features": (
            "What each set of features gains or loses",
            f"Fraction of oracle in the {end}, in brackets the points gained over the first set ({bars}). How widely "
            "each learner explores on each set is that of the configuration below.",
        ),
        "share": (
            "Share of the oracle over the stream",
            "What the choices of the last 500 visits earn on average, over what the best would have earned; higher is "
            f"better. {line}{step_back}",
        ),
        "seeds": ("Seed by seed", "A mark is one seed: marks far apart mean a result that hangs on luck."),
        "ctr": (
            f"{reward[:1].upper()}{reward[1:]} over the stream",
            f"{'The share' if share else 'What one'} of the last 500 visits {'that paid off' if share else 'earned'}; "
            f"higher is better. {line}{shocks}",
        ),
        "clicks": (
            f"Total {clicks}",
            f"All {clicks} so far; the steeper line earns more at that moment.",
        ),
        "regret": (
            "Regret",
            "What was lost so far against always choosing best; lower is better, a flat line loses nothing more.",
        ),
        "phases": (
            "Fraction of oracle, phase by phase" if report.shocks else "Fraction of oracle",
            f"How much of the best possible {reward} each policy got {when} ({bars}); further right is better.",
        ),
        "recovery": (
            "Recovery after each shock",
            "Median visits until a policy was back (and share of seeds that got there); “never”: half or more did not.",
        ),
        "pairs": (
            "Pairs of policies",
            "The lead of the first policy over the second, largest on top. Blue dots are told apart after correction "
            f"(p < {SIGNIFICANT}); hollow grey ones may be luck.",
        ),
    }


def _tail(summary: Mapping[str, Any]) -> int:
    """Count the visits of the last phase."""
    last = next((policy["phases"][-1] for policy in summary["policies"].values() if policy["phases"]), None)
    return int(summary["steps"] if last is None else last["to"] - last["from"])


def percent(value: float | None) -> str:
    """0.8412 as 84.1%."""
    return MISSING if value is None else f"{100 * value:.1f}%"


def interval(value: Mapping[str, float | None]) -> str:
    """The 95% interval of a fraction as 83.2–85.0%, cut at 0 and 100% unless its mean lies beyond; empty if none."""
    low, high = value["low"], value["high"]
    if low is None or high is None:
        return ""
    mean = value.get("mean") or 0.0
    shown_low = low if mean < 0.0 else max(low, 0.0)
    shown_high = high if mean > 1.0 else min(high, 1.0)
    return f"{100 * shown_low:.1f}\u2060\u2013\u2060{100 * shown_high:.1f}%"


def amount(value: float | None) -> str:
    """8.4123 as 8.41."""
    return MISSING if value is None else f"{value:,.2f}"


def signed(value: float | None) -> str:
    """An amount that may be negative: -0.4123 as 0.41 with a true minus before it."""
    return MISSING if value is None else f"{round(value, 2) + 0.0:,.2f}".replace("-", "\u2212")


def amounts(value: Mapping[str, float | None]) -> str:
    """The 95% interval of an amount as 8.32–8.50; empty when there is none."""
    low, high = value["low"], value["high"]
    return "" if low is None or high is None else f"{low:,.2f}\u2060\u2013\u2060{high:,.2f}"


def points(value: float | None) -> str:
    """A signed difference in percentage points, with a true minus."""
    return MISSING if value is None else f"{100 * value:+.1f}".replace("-", "\u2212")


def count(value: float | None) -> str:
    """12345 as 12,345."""
    return MISSING if value is None else f"{value:,.0f}"


def p_value(value: float | None) -> str:
    """A p-value to three decimals; smaller ones as <0.001."""
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def duration(seconds: float | None) -> str:
    """372.4 as 6 min 12 s."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f}{NBSP}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest if not hours else 0, "s")]
    return NBSP.join(f"{number}{NBSP}{unit}" for number, unit in parts if number)


def seed_list(seeds: Iterable[int]) -> str:
    """[0, 1, 2, 7] as 0–2, 7."""
    runs = itertools.groupby(enumerate(sorted(seeds)), key=lambda item: item[1] - item[0])
    ends = [[seed for _, seed in run] for _, run in runs]
    return ", ".join(f"{run[0]}{MISSING}{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends)


def breakable(name: str) -> Markup:
    """The name, escaped, with a place to break the line after each joint."""
    return Markup("<wbr>").join(re.split("(?<=[_./-])", name))
