import itertools
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from zoosim.report import page
from zoosim.report.data import Curve, ReportData, oriented, parted, ranked
from zoosim.report.drawing import policy_styles, spread_apart
from zoosim.report.figures import _levels, _ticks, figures
from zoosim.report.filters import duration, interval, p_value, percent, points, seed_list
from zoosim.report.page import render_page
from zoosim.worlds.facts import CLICKS, EUROS, Reference
from zoosim.worlds.registry import find_world

SHOCKS = ((4000, "preference_flip"), (7000, "new_arrivals"))
GAIN = {"difference": -0.1, "low": -0.12, "high": -0.08, "p": 0.001}
EARNED = ("reward", "gmv", "cm2", "strategic_share", "rank_change", "below_cm2_floor", "below_strategic_floor")
HOSTILE = "</script><script>alert(1)</script>"


def estimate(mean: float | None, half: float | None) -> dict[str, float | None]:
    if mean is None or half is None:
        return {"mean": mean, "low": None, "high": None}
    return {"mean": mean, "low": mean - half, "high": mean + half}


def policy(fraction: float, seeds: int, shocks: tuple[tuple[int, str], ...]) -> dict[str, Any]:
    half = 0.01 if seeds > 1 else None
    edges = [0, *(step for step, _ in shocks), 10_000]
    both = {"ctr": estimate(0.16 * fraction, half), "oracle_fraction": estimate(fraction, half)}
    spread = {"sd": None, "min": None} if half is None else {"sd": 0.02, "min": fraction - 0.03}
    median = 900.0 if fraction > 0.5 else None
    return {
        "ctr": both["ctr"],
        "oracle_fraction": {**both["oracle_fraction"], **spread, "per_seed": [fraction] * seeds},
        "phases": [{"from": start, "to": end, **both} for start, end in itertools.pairwise(edges)],
        "recovery_steps": {name: {"median": median, "recovered": 1, "of": seeds} for _, name in shocks},
        "failed": [],
    }


def failed_policy(seeds: int) -> dict[str, Any]:
    none = estimate(None, None)
    return {
        "ctr": none,
        "oracle_fraction": {**none, "sd": None, "min": None, "per_seed": [None] * seeds},
        "phases": [],
        "recovery_steps": {},
        "failed": [
            {"seed": seed, "step": 1234, "place": "mine.py:7", "error": "LinAlgError: <singular>"}
            for seed in range(seeds)
        ],
    }


def curve(slope: float, seeds: int) -> Curve:
    steps = np.linspace(25, 10_000, 400)
    mean = slope * steps
    half = 0.1 * mean if seeds > 1 else 0 * mean
    return Curve(steps, mean, mean - half, mean + half)


def pair(policies: dict[str, Any], a: str, b: str, seeds: int) -> dict[str, Any]:
    means = [policies[name]["oracle_fraction"]["mean"] for name in (a, b)]
    if None in means:
        return {"a": a, "b": b, "difference": None, "low": None, "high": None, "p": None}
    lead = means[0] - means[1]
    bounds = (
        {"low": lead - 0.02, "high": lead + 0.02, "p": 0.00001} if seeds > 1 else dict.fromkeys(("low", "high", "p"))
    )
    return {"a": a, "b": b, "difference": lead, **bounds}


def row(policy: str, known: tuple[str, str], end: float | None) -> dict[str, Any]:
    learner, sees = known
    gain = dict.fromkeys(("difference", "low", "high", "p")) if sees == "simple" else GAIN
    return {"policy": policy, "learner": learner, "features": sees, "end": estimate(end, 0.01), **gain}


def report(
    fractions: dict[str, float | None],
    *,
    seeds: int = 10,
    shocks: tuple[tuple[int, str], ...] = SHOCKS,
    **more: Any,
) -> ReportData:
    """A report of policies with the given fractions of oracle; None for one whose every run failed."""
    policies = {
        name: failed_policy(seeds) if value is None else policy(value, seeds, shocks)
        for name, value in fractions.items()
    }
    names = list(policies)
    summary = {
        "schema_version": 1,
        "experiment": "gauntlet",
        "config_hash": "9f2c41d0",
        "seeds": list(range(seeds)),
        "steps": 10_000,
        "wall_seconds": 372.4,
        "policies": policies,
        "pairs": [pair(policies, a, b, seeds) for i, a in enumerate(names) for b in names[i + 1 :]],
    }
    curves = {
        name: {
            "ctr": curve(1e-5, seeds),
            "share": curve(1e-5, seeds),
            "clicks": curve(value, seeds),
            "regret": curve(1 - value, seeds),
        }
        for name, value in fractions.items()
        if value is not None
    }
    if "measures" in more:
        for figures in policies.values():
            figures |= {key: estimate(None, None) for key in EARNED} | {"segments": {}}
        summary["features"] = [row(name, known, fractions[name]) for name, known in more["features"].items()]
    words = {
        "title": "gauntlet",
        "question": "which?",
        "command": "zoosim run gauntlet --seeds 10",
        "verdict": "One won.",
    }
    config = {"config_yaml": "steps: 10000\n", "notes": ("shock x dropped",)}
    return ReportData(**{**words, **config, "summary": summary, "shocks": shocks, "curves": curves, **more})


class Shown(HTMLParser):
    """Collects the tags of a page, and the text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.hidden = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self.hidden else data


SEES = {"ts-simple": ("ts", "simple"), "ts-rich": ("ts", "rich"), "greedy-simple": ("greedy", "simple")}
FULL = report({"linucb": 0.9, "epsilon_greedy": 0.4, "thompson": 0.91, "random": 0.1})
CASES = {
    "full": FULL,
    "one seed": report({"linucb": 0.9}, seeds=1),
    "one seed, three policies": report({"linucb": 0.9, "thompson": 0.7, "random": 0.1}, seeds=1),
    "one failed": report({"linucb": 0.9, "broken": None, "random": 0.1}),
    "all failed": report({"broken": None}),
    "no shocks": report({"linucb": 0.9, "random": 0.1}, shocks=()),
    "many": report(
        {f"policy_{i}": 0.2 + 0.06 * i for i in range(12)}, shocks=tuple((1000 * i, f"s{i}") for i in range(6))
    ),
    "features": report(
        {"ts-simple": 0.9, "ts-rich": 0.8, "greedy-simple": 0.5, "static": 0.7, "worse": 0.3, "random": None},
        features=SEES,
        reward=EUROS,
        measures=find_world("search")(0, 10).reported_measures,
        shocks=(),
    ),
    "six": report({f"p{i}": 0.9 - 0.1 * i for i in range(6)}),
    "crowd": report({f"policy_{i}": 0.2 + 0.02 * i for i in range(30)}),
    "accuracy": report(
        {"linucb": 0.9}, references=(Reference("logistic regression", 0.97),), reward=CLICKS._replace(name="accuracy")
    ),
    "hostile": report({HOSTILE: 0.9, "<img src=x onerror=alert(1)>": 0.8}, shocks=((500, HOSTILE),), notes=(HOSTILE,)),
}


@cache
def drawn_of(name: str) -> dict[str, Any]:
    """Return the figures of a case, which takes a second to draw, to be read alone."""
    return dict(figures(CASES[name]))


@cache
def page_of(name: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "figures", lambda _: drawn_of(name))
        return render_page(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_page_is_complete_offline_and_speaks_no_python(name: str) -> None:
    text = page_of(name)
    shown = Shown(text)
    assert not [attrs for tag, attrs in shown.tags if tag == "link" or "src" in attrs or "href" in attrs]
    assert not re.search(r"@import|url\(", text[: text.index("</style>")])
    assert text.count("* plotly.js v") == 1
    assert [tag for tag, _ in shown.tags].count("script") == 3
    assert not re.search(r"NaN|None|nan\b|null|undefined", shown.text)
    for key in drawn_of(name):
        assert f'id="figure-{key}"' in text


def test_page_tells_the_result_and_how_to_repeat_it() -> None:
    text = Shown(page_of("full")).text
    for words in ("One won.", "91.0%", "90.0\u2060\u2013\u2060", "never", "zoosim run gauntlet --seeds 10", "9f2c41d0"):
        assert words in text
    for words in ("6\u00a0min\u00a012\u00a0s", "0\u20139", "steps: 10000", "shock x dropped", "Holm", "below .001"):
        assert words in text


def test_failed_runs_are_counted_and_explained() -> None:
    text = Shown(page_of("one failed")).text
    assert "10 of 10" in text
    assert "LinAlgError: <singular>" in text


def test_hostile_text_stays_text() -> None:
    text = page_of("hostile")
    assert HOSTILE not in text
    assert "<img" not in text[: text.index("* plotly.js v")]
    shown = Shown(text)
    assert HOSTILE in shown.text
    assert {attrs["data-policy"] for _, attrs in shown.tags if "data-policy" in attrs} == set(CASES["hostile"].curves)


def test_plotly_labels_are_escaped() -> None:
    labels = {label.text for label in figures(report({"%{x} <b>": 0.5}))["ctr"].layout.annotations}
    assert "&#37;{x} &lt;b&gt;" in labels


def test_figures_leave_out_what_has_no_data() -> None:
    every = ["ctr", "clicks", "regret", "phases", "seeds", "recovery", "pairs"]
    assert list(drawn_of("full")) == every
    assert list(drawn_of("no shocks")) == [key for key in every if key != "recovery"]
    assert list(drawn_of("one seed")) == [key for key in every if key not in ("seeds", "pairs")]
    assert drawn_of("all failed") == {}


def test_band_is_drawn_only_over_several_seeds() -> None:
    assert sum(trace.fill == "toself" for trace in drawn_of("full")["ctr"].data) == 4
    assert not any(trace.fill for trace in drawn_of("one seed")["ctr"].data)


def test_a_curve_is_drawn_whole() -> None:
    line = drawn_of("one seed")["ctr"].data[0]
    np.testing.assert_array_equal(line.y, CASES["one seed"].curves["linucb"]["ctr"].mean)


def test_reference_line_is_in_the_ctr_figure_alone() -> None:
    drawn = drawn_of("accuracy")
    holds = {
        key: any("logistic" in (label.text or "") for label in fig.layout.annotations) for key, fig in drawn.items()
    }
    assert [key for key, held in holds.items() if held] == ["ctr"]


def test_names_of_near_reference_lines_do_not_overlap() -> None:
    lines = tuple(Reference(name, value) for name, value in (("low", 0.02), ("near", 0.095), ("top", 0.0952)))
    figure = figures(report({"linucb": 0.9}, references=lines, shocks=(), seeds=1))["ctr"]
    (low, high), layout = figure.layout.yaxis.range, figure.layout
    scale = (layout.height - layout.margin.t - layout.margin.b) / (high - low)
    named = [label for label in layout.annotations if label.xref == "paper"]
    assert [label.text for label in named] == ["top 9.5%", "near 9.5%", "low 2.0%"]
    heights = [label.y * scale + label.yshift for label in named]
    assert min(np.diff(heights[::-1])) >= 13.0, "a name is 12 px high"
    assert [shape.y0 for shape in layout.shapes] == [0.0952, 0.095, 0.02]


def test_every_shock_is_a_labelled_line() -> None:
    layout = drawn_of("full")["regret"].layout
    assert [shape.x0 for shape in layout.shapes] == [4000, 7000]
    assert {"preference_flip", "new_arrivals"} <= {label.text for label in layout.annotations}


def test_a_policy_that_never_recovers_is_off_the_scale() -> None:
    axis = drawn_of("full")["recovery"].layout.xaxis
    assert axis.ticktext[-1] == "never"
    assert axis.tickvals[-1] > 900


def test_every_seed_is_a_mark() -> None:
    drawn = drawn_of("full")["seeds"]
    assert [list(trace.x) for trace in drawn.data] == [[0.91] * 10, [0.9] * 10, [0.4] * 10, [0.1] * 10]
    assert "seed 9: 10.0%" in drawn.data[3].text[9]
    failed = drawn_of("one failed")["seeds"]
    assert len(failed.data) == 2


def test_each_set_of_features_is_told_with_its_gain() -> None:
    drawn = drawn_of("features")
    assert list(drawn) == ["features", "share", "clicks", "regret", "phases", "seeds", "pairs"]
    figure = drawn["features"]
    assert list(figure.layout.yaxis.ticktext) == ["ts, simple", "ts, rich", "greedy, simple"]
    words = [trace.text[0] for trace in figure.data if trace.text]
    assert words[0] == "90.0%"
    assert "\u221210.0" in words[1]
    assert "\u221210.0" in Shown(page_of("features")).text


def test_policies_that_see_nothing_step_back() -> None:
    """Lines and names: of those that are no learners, the best alone is named; learners have hues, features dashes."""
    styles = policy_styles(["static", *SEES], SEES)
    assert [name for name, style in styles.items() if style.muted] == ["static"]
    assert styles["ts-simple"].dash == styles["greedy-simple"].dash != styles["ts-rich"].dash
    assert len({style.color for style in styles.values()}) == 3
    share = drawn_of("features")["share"]
    named = {label.name for label in share.layout.annotations}
    assert named == {*SEES, "static"}
    assert {trace.meta for trace in share.data if trace.fill == "toself"} == set(SEES)


def test_a_crowd_is_not_drawn_one_by_one() -> None:
    assert list(drawn_of("crowd")) == ["phases", "recovery"]
    text = Shown(page_of("crowd")).text
    assert "so many policies" in text
    assert "Every pair" not in text


def test_ranking_puts_failures_last() -> None:
    assert ranked(report({"a": 0.1, "broken": None, "b": 0.9}).summary) == ["b", "a", "broken"]


def test_pairs_are_turned_to_a_lead_and_sorted() -> None:
    rows = oriented(report({"a": 0.1, "b": 0.9, "c": 0.5, "broken": None}).summary["pairs"])
    assert [(row["a"], row["b"]) for row in rows[:3]] == [("b", "a"), ("c", "a"), ("b", "c")]
    first = rows[0]  # a - b was -0.8, from -0.82 to -0.78
    assert (first["difference"], first["low"], first["high"]) == pytest.approx((0.8, 0.78, 0.82))
    assert rows[-1]["difference"] is None


def test_colours_of_16_policies_differ() -> None:
    styles = policy_styles(["random", *(f"p{i}" for i in range(12)), "most_popular", "fixed"])
    assert len({style.color for style in styles.values()}) == 15
    assert styles["random"].dash == styles["most_popular"].dash == "dot"
    assert policy_styles(["randomised_ucb"])["randomised_ucb"].dash == "solid"
    learners = policy_styles([f"p{i}" for i in range(20)]).values()
    assert [style.dash for style in learners] == ["solid"] * 16 + ["dash"] * 4
    baselines = policy_styles([f"random-{i}" for i in range(16)]).values()
    assert len({style.color for style in baselines}) == 16


def test_pairs_with_the_best_and_of_neighbours_come_first() -> None:
    main, others = parted(CASES["six"].summary)
    with_best = [("p0", f"p{i}") for i in range(1, 6)]
    assert [(pair["a"], pair["b"]) for pair in main] == [*with_best, *itertools.pairwise(f"p{i}" for i in range(1, 6))]
    assert len(others) == 15 - len(main)
    assert f"The other {len(others)} pairs" in Shown(page_of("six")).text
    assert len(drawn_of("six")["pairs"].layout.yaxis.ticktext) == len(main)
    assert parted(FULL.summary)[1] == []


def test_labels_are_spread_as_little_as_possible() -> None:
    assert spread_apart([0, 50, 90], 10, 100) == [0, 50, 90]
    assert spread_apart([50, 50, 50], 10, 100) == [40, 50, 60]  # a least-squares spread is centred
    assert spread_apart([0, 0, 99, 100], 10, 100) == [0, 10, 90, 100]
    assert spread_apart([5, 5, 5], 10, 15) == [0, 10, 20]  # no room: the gap holds


def test_shock_labels_step_aside() -> None:
    assert _levels([(0, "first"), (10, "second"), (9000, "far")], 10_000) == [0, 1, 0]


@pytest.mark.parametrize(("top", "expected"), [(10.0, [0, 5, 10]), (4631.0, [0, 2000, 4000]), (2.0, [0, 1, 2])])
def test_ticks_are_round(top: float, expected: list[float]) -> None:
    assert _ticks(top) == pytest.approx(expected)


def test_numbers_are_written_for_people() -> None:
    assert [percent(0.8412), percent(None), points(-0.031), points(None)] == ["84.1%", "\u2013", "\u22123.1", "\u2013"]
    assert [p_value(0.00001), p_value(0.0123), p_value(None)] == ["below .001", ".012", "\u2013"]
    assert interval({"low": 0.832, "high": 0.85}) == "83.2\u2060\u2013\u206085.0%"
    assert interval({"low": None, "high": None}) == ""
    assert [duration(4.21), duration(372.4), duration(7260), duration(None)] == [
        "4.2\u00a0s",
        "6\u00a0min\u00a012\u00a0s",
        "2\u00a0h\u00a01\u00a0min",
        "\u2013",
    ]
    assert seed_list([7, 0, 2, 1]) == "0\u20132, 7"
