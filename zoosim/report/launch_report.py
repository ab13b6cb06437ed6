"""The page of a launch after the fact: what to do, effects by reward and segment, and its history."""

from typing import TYPE_CHECKING

from zoosim.core.number_format import plain, with_interval
from zoosim.core.statistics import Interval
from zoosim.monitoring.effects import Effect
from zoosim.report.drawing import COLORS, MUTED
from zoosim.report.marks import Mark, marks_figure
from zoosim.report.sections import Drawing, Page, PageTable

if TYPE_CHECKING:
    from zoosim.api.launch_report import LaunchResult

ALL = "all visitors"
MISSING = "\N{EN DASH}"

TERMS = {
    "difference": "What a visitor earned more by the new model than by the champion, within the window of the plan, "
    "each weighted by s (1 - s), where s is the chance to meet the new model; of the visitors who met one of both.",
    "interval": "It may be looked at at any time: the chance that any interval of a reward ever misses is 5%. Each is "
    "the wider the more segments there are.",
    "segments": "Patterns or clusters of what the log knows of visitors, at their first decision in the launch.",
}


def build_page(report: "LaunchResult") -> Page:
    """Return the page."""
    answer, *details = report.sentences
    tables = [effect_table(report), history_table(report)]
    drawings = [_drawing(report)] if report.effects else []
    return Page(answer, tables, drawings, TERMS, details)


def effect_table(report: "LaunchResult") -> PageTable:
    """Tabulate the effects."""
    rows = []
    for effect in report.effects:
        counts = (f"{effect.visitors:,}", f"{effect.new:,}")
        difference, champion = _figures(effect)
        rows.append((effect.segment or ALL, difference, _word(effect), effect.reward, champion, *counts))
    caption = "Differences per visitor, new model less champion. A dash: too few visitors of both."
    heads = ("visitors", "difference (interval)", "the new model earns", "reward", "champion", "counted", "of the new")
    return PageTable("Effects", heads, rows, 1, caption)


def _word(effect: Effect) -> str:
    return {1: "more", -1: "less", 0: "not told apart"}[effect.sign]


def _figures(effect: Effect) -> tuple[str, str]:
    difference, low, high, champion = effect.estimate
    if difference != difference:  # NaN: nobody counted
        return MISSING, MISSING
    written = with_interval(difference, low, high, signed=True)
    return str(written), plain(champion) if champion == champion else MISSING


def history_table(report: "LaunchResult") -> PageTable:
    """Tabulate the moves of the launch, the newest first."""
    rows = []
    for move in reversed(report.history):
        when = move["time"].replace("T", " ").replace("+00:00", " UTC")
        rows.append((when, move["state"], move["who"] or MISSING, move["why"], f"{move['share']:.1%}"))
    return PageTable("History", ("when", "state", "who", "why", "share of the new model"), rows, 4, printed=True)


def _drawing(report: "LaunchResult") -> Drawing:
    colors = {1: COLORS[2], -1: COLORS[1], 0: MUTED}
    rewards = {effect.reward for effect in report.effects}
    marks = {}
    for effect in report.effects:
        difference, low, high, _ = effect.estimate
        if difference == difference:
            name = effect.segment or ALL
            if len(rewards) > 1:
                name = f"{effect.reward}, {name}"
            marks[name] = [Mark(name, Interval(difference, low, high), colors[effect.sign])]
    caption = "New model less champion, per visitor, with intervals that may be looked at at any time."
    return Drawing("Effects", caption, marks_figure(marks, "difference per visitor"))
