"""Pages of worlds: offline, complete, in plain words, whatever the world."""

import itertools
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.report.test_report import HOSTILE, Shown
from zoosim.core.config import EnvConfig, build
from zoosim.core.search_config import CATEGORIES, SEGMENTS, SearchConfig
from zoosim.descriptions import (
    LureDescription,
    RecommendationDescription,
    SearchDescription,
    SessionsDescription,
    describe_lure,
    describe_recommendation,
    describe_search,
    describe_sessions,
)
from zoosim.worlds.lure.world import Lure
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.sessions.world import Sessions


def search(visits: int = 60, **config: Any) -> SearchDescription:
    values = {"n_products": 50, "n_users": 40, **config}
    return describe_search(build(SearchConfig, values, "env"), seed=5, visits=visits, progress=print)


def recommendation(**config: Any) -> RecommendationDescription:
    return describe_recommendation(build_world(build(EnvConfig, config, "env"), seed=1), steps=1_000)


def hostile() -> dict[str, Any]:
    kinds = {HOSTILE if name == "toys" else name: kind.model_dump() for name, kind in CATEGORIES.items()}
    segments = {f"{name} %{{x}} <b>": kind.model_dump() for name, kind in SEGMENTS.items()}
    for segment in segments.values():
        segment["category_tastes"] = dict.fromkeys(kinds, 1.0)
    return {"categories": kinds, "segments": segments}


def hostile_sessions() -> dict[str, Any]:
    personas = {HOSTILE: {HOSTILE: 0.5, "toys": 0.1}}
    shock = {"step": 500, "name": HOSTILE, "set": {HOSTILE: {"toys": 0.9}}}
    return {"personas": personas, "companions": {}, "shocks": [shock]}


SHIFTS = [
    {"step": 80, "name": HOSTILE, "prices": {"toys": 1.4}, "segment_mix": {"premium": 0.4}},
    {"step": 90, "name": "back", "prices": {"toys": 1.0}, "segment_mix": {"premium": 0.15}},
]
SHOCK = {"step": 500, "name": HOSTILE, "set": {"fish_hobbyist": {"Cat Toy": 0.9}}}
CASES: dict[
    str, Callable[[], SearchDescription | RecommendationDescription | SessionsDescription | LureDescription]
] = {
    "search": search,
    "one product, one visit": lambda: search(visits=1, n_products=1),
    "simple": lambda: search(visits=5, context="simple", k=3),
    "hostile": lambda: search(visits=5, **hostile()),
    "hostile shifts": lambda: search(visits=5, shifts=SHIFTS),
    "recommendation": recommendation,
    "a hostile shock": lambda: recommendation(shocks=[SHOCK]),
    "nothing for sale in a category": lambda: recommendation(
        availability=[{"step": 10, "change": "vanish", "category": "Cat Toy"}]
    ),
    "drawn": lambda: recommendation(random_personas={"personas": 3, "categories": 25}),
    "sessions": lambda: describe_sessions(Sessions(0, 1_000)),
    "lure": lambda: describe_lure(Lure(0, 1_000)),
    "hostile sessions": lambda: describe_sessions(Sessions(0, 1_000, **hostile_sessions())),
}


@cache
def described(name: str) -> Any:
    return CASES[name]()


@cache
def drawn_of(name: str) -> dict[str, Any]:
    """Return the figures of a case, which take a second to draw, to be read alone."""
    return dict(described(name).draw(described(name)))


@cache
def rendered(name: str) -> str:
    facts = described(name)
    page: str = facts.render(facts, drawn_of(name), "search", "zoosim describe search", "env: {}\n")
    return page


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_complete_offline_and_speaks_no_python(name: str) -> None:
    page = rendered(name)
    shown = Shown(page)
    assert not [attrs for tag, attrs in shown.tags if tag == "link" or "src" in attrs or "href" in attrs]
    assert page.count("* plotly.js v") == 1
    assert [tag for tag, _ in shown.tags].count("script") == 3
    assert not re.search(r"NaN|None|nan\b|null|undefined", shown.text)
    assert HOSTILE not in page
    assert page.count('id="figure-') == len(drawn_of(name))


def test_shifts_are_listed_in_words() -> None:
    text = Shown(rendered("hostile shifts")).text
    listed = text[text.index("How the market shifts") : text.index("What templates earn")]
    assert HOSTILE in listed
    assert "x 1.4" in listed
    assert "15% to 40%" in listed
    assert "no difference to the opening market" in listed
    plain = Shown(rendered("search")).text
    assert "How the market shifts" not in plain


def test_what_a_policy_sees_is_told_from_what_only_the_simulator_knows() -> None:
    page = Shown(rendered("search"))
    badges = [attrs["class"] for tag, attrs in page.tags if tag == "span" and "badge" in (attrs.get("class") or "")]
    assert {"badge seen", "badge hidden"} == set(badges)
    head = page.text.index("looked at", page.text.index("step by step"))
    assert page.text.index("base score") < head < page.text.index("utility", head)


def test_ladder_draws_every_product_once_a_column() -> None:
    ladder = drawn_of("search")["ladder"]
    places = [p for t in ladder.data if t.mode == "markers+text" for p in zip(t.x, t.y, strict=True)]
    assert sorted(places) == [(column, place) for column in range(8) for place in range(1, 21)]
    axis = ladder.layout.xaxis
    assert axis.ticktext[0] == "no boosts"
    assert axis.ticktext[-1] == "5"


def test_lines_join_the_places_of_one_product() -> None:
    links = [t for t in drawn_of("search")["ladder"].data if t.mode == "lines"]
    joined = sum(sum(x is None for x in t.x) for t in links)
    shown = [{item.product for item in ranking.shown} for ranking in described("search").example.ladder]
    assert joined == sum(len(a & b) for a, b in itertools.pairwise(shown))


def test_axes_have_units() -> None:
    drawn = drawn_of("search")
    assert [drawn["prices"].layout[axis].title.text for axis in ("xaxis", "xaxis2")] == ["price, EUR", "CM2, EUR"]
    assert drawn["ladder"].layout.yaxis.title.text == "EUR per visit"
    assert drawn["positions"].layout.yaxis2.title.text == "of visits"


def test_changed_cells_are_framed() -> None:
    drawn = drawn_of("a hostile shock")["chances"]
    [frame] = drawn.layout.shapes
    table = drawn.data[1].z
    assert table[int(np.round(frame.y0)), int(np.round(frame.x0))] == 0.9
