"""The report of a run as one HTML file that needs no network."""

from collections.abc import Mapping
from typing import Any

from zoosim.core.statistics import SIGNIFICANT
from zoosim.report.data import ReportData, parted, ranked, shock_names
from zoosim.report.drawing import policy_styles
from zoosim.report.figures import figures
from zoosim.report.filters import percent
from zoosim.report.rendering import render

CURVES = ("ctr", "share", "clicks", "regret", "targets")
FIRST = ("features", "kinds")


def render_page(report: ReportData) -> str:
    """Render the report of a run as one self-contained HTML page."""
    drawn = figures(report)
    words = _words(report)
    parts = [(key, *words[key], int(figure.layout.height)) for key, figure in drawn.items()]
    summary = report.summary
    main_pairs, other_pairs = parted(summary)
    return render(
        "page.html",
        drawn,
        title=report.title,
        question=report.question,
        answer=answer(report),
        report=report,
        summary=summary,
        policies={name: summary["policies"][name] for name in ranked(summary)},
        styles=policy_styles(summary["policies"], report.features),
        shock_names=shock_names(summary),
        pairs=[] if report.crowded else main_pairs,
        other_pairs=[] if report.crowded else other_pairs,
        curves=[part for part in parts if part[0] in CURVES],
        first=[part for part in parts if part[0] in FIRST],
        others=[part for part in parts if part[0] not in (*CURVES, *FIRST)],
        significant=SIGNIFICANT,
        failures=_failures(summary["policies"]),
    )


def answer(report: ReportData) -> str:
    """Return which policy to use, or what to run to find out, in one sentence."""
    policies = report.summary["policies"]
    names = [name for name in ranked(report.summary) if policies[name]["oracle_fraction"]["mean"] is not None]
    if not names:
        return "Mend the policies and run again: none of them finished a seed."
    best = names[0]
    share = f"{percent(policies[best]['oracle_fraction']['mean'])} of what is possible"
    if len(names) == 1:
        return f"Run {best} beside other policies: alone it earns {share}, and nothing says whether that is good."
    second = names[1]
    pairs = (pair for pair in report.summary["pairs"] if {pair["a"], pair["b"]} == {best, second})
    pair = next(pairs, None)
    if pair is None or pair["difference"] is None:
        return f"Run {best} and {second} on the same seeds: they met different visitors, so neither is ahead."
    lead = f"{100 * abs(pair['difference']):.1f} points"
    if pair["p"] is None:
        return f"Run at least 10 seeds before you choose: {best} leads by {lead}, but one seed may be luck."
    if pair["p"] < SIGNIFICANT:
        return f"Use {best}: it earns {share}, {lead} more than {second}, the next best."
    return f"Choose {best} or {second}, or run more seeds: a lead of {lead} may be luck ({best} earns {share})."


def _failures(policies: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"policy": name, **failure} for name, policy in policies.items() for failure in policy["failed"]]


def _words(report: ReportData) -> dict[str, tuple[str, str]]:
    """Return heading and caption of each figure."""
    seeds = len(report.summary["seeds"])
    line = f"A line is the mean of {seeds} seeds, its band the 95% interval." if seeds > 1 else "One seed, so no band."
    bars = "dots with their 95% intervals" if seeds > 1 else "one seed, so no intervals"
    shocks = " Dashed lines mark the shocks." if report.shocks else ""
    reward = report.reward.name
    share = report.reward.is_share
    when = "between shocks" if report.shocks else "over the stream"
    clicks = report.reward.word
    visits = f"{report.unit}s"
    end = f"last {_tail(report.summary):,} {visits}"
    lines = " Dashed lines across are what to compare with." if report.references else ""
    step_back = " Thin grey lines are policies that learn nothing, the best of them named." if report.features else ""
    return {
        "features": (
            "What each set of features gains or loses",
            f"Fraction of oracle in the {end}, in brackets the points gained over the first set ({bars}). How widely "
            "each learner explores on each set is that of the configuration below.",
        ),
        "share": (
            "Share of the oracle over the stream",
            f"What the choices of the last {report.window:,} {visits} earn on average, over what the best would have "
            f"earned; higher is better. {line}{step_back}{lines}",
        ),
        "seeds": ("Seed by seed", "Each mark is one seed: marks far apart mean that the result depends on luck."),
        "ctr": (
            f"{reward[:1].upper()}{reward[1:]} over the stream",
            f"{'The share' if share else 'What one'} of the last {report.window:,} {visits} "
            f"{'that paid off' if share else 'earned'}; higher is better. {line}{shocks}{lines}",
        ),
        "clicks": (
            f"Total {clicks}",
            f"All {clicks} so far; the steeper line earns more at that moment.",
        ),
        "regret": (
            "Regret",
            "What the policy has lost so far compared with always choosing the best; lower is better, and a flat line "
            "loses no more.",
        ),
        "targets": (
            "Who was shown what the shock made popular",
            "For each shock, the visitors whose tastes it moved and the products that they now want. Left, the share "
            f"of those among the last {report.window:,} {visits} who were shown one of these; right, how many "
            "different ones they have been shown since. One that learns of each product by itself climbs one by one.",
        ),
        "kinds": (
            "Shops like yours",
            "Mean fraction of oracle in each kind of shop; in brackets how many shops are of that kind.",
        ),
        "phases": (
            "Fraction of oracle, phase by phase" if report.shocks else "Fraction of oracle",
            f"How much of the best possible {reward} each policy got {when} ({bars}); further right is better.",
        ),
        "recovery": (
            "Recovery after each shock",
            f"Median {visits} until a policy was back (and share of seeds that got there); “never”: half or more did "
            "not.",
        ),
        "pairs": (
            "Pairs of policies",
            f"The lead of the first policy over the second{_which_pairs(report)}. All intervals hold together "
            f"with 95%. Blue dots are significant after correction (p < {SIGNIFICANT}); hollow grey ones may be luck.",
        ),
    }


def _which_pairs(report: ReportData) -> str:
    folded = parted(report.summary)[1]
    return ": the best over all others, then neighbours in the ranking" if folded else ", largest on top"


def _tail(summary: Mapping[str, Any]) -> int:
    """Count the visits of the last phase."""
    last = next((policy["phases"][-1] for policy in summary["policies"].values() if policy["phases"]), None)
    return int(summary["steps"] if last is None else last["to"] - last["from"])
