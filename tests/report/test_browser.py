"""Every kind of page in a real browser, from a phone to a desk: no overlaps, nothing cut, no network, no errors."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from studies.boost_curves import build_page as build_study_page
from studies.leaderboard import build_page as build_leaderboard
from studies.leaderboard import measure as measure_leaderboard
from studies.result_files import Result, write_result
from tests.api.test_models import imported
from tests.fitting.shops import shop_log
from tests.logs.own_searches import write_searches
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from tests.report.browser import Browser, started
from tests.report.colors import faint_series
from tests.report.test_report import CASES, report
from tests.report.test_world import CASES as WORLDS
from tests.report.test_world import recommendation
from tests.studies.test_boost_curves import made_up
from tests.studies.test_leaderboard import result as made_up_result
from zoosim.report.page import render_page
from zoosim.report.sections import Link, Page, PageTable, render_sections

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH: Debian's package chromium has it")

WIDTHS = (390, 800, 1400)
ANSWER = 130
"""Characters of a page's first line, at most, where names are of usual length."""

READABLE = 19.0
"""Pixels of its letters, at least."""

MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")
NAMES = [f"{kind}-{number}" for kind in ("neural-linear-online", "linucb") for number in range(7)]
CROWDED = report({**{name: 0.97 - 0.04 * i for i, name in enumerate(NAMES)}, "random": 0.2, "static": 0.3})


SHOCK = {"step": 500, "name": "fish hobbyists love cat toys, and much else", "set": {"fish_hobbyist": {"Cat Toy": 0.9}}}


def world(facts: Any) -> str:
    page: str = facts.render(facts, facts.draw(facts), "a world", "zoosim describe", "env: {}\n")
    return page


def evaluation(folder: Path) -> str:
    shop = TableWorld(0, 0.5)
    log = drawn(shop)
    policies = {
        "new": log.features @ shop.target,
        "a policy with a long name": np.full(log.n_actions, 1 / log.n_actions),
    }
    zoosim.evaluate(log, policies, out=folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def fitted(folder: Path) -> str:
    zoosim.fit_world(shop_log(np.random.default_rng(0), 4_000), folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def recommended(folder: Path) -> str:
    log = shop_log(np.random.default_rng(0), 3_000)
    zoosim.recommend(log, policies=["random", "linucb", "linear"], seeds=2, visits=300, jobs=1, out=folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def fitted_searches(folder: Path) -> str:
    folder.mkdir()
    zoosim.fit_world(write_searches(folder, 400), folder / "world")
    return (folder / "world" / "report.html").read_text(encoding="utf-8")


def trained(folder: Path, log: Callable[[Path], Path], policies: list[str]) -> str:
    folder.mkdir()
    zoosim.train(log(folder), policies, report=folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


def standings(folder: Path) -> Page:
    folder.mkdir()
    for number, name in enumerate(NAMES[:10]):
        write_result(Result.model_validate(made_up_result(name, 5.0 + 9 * number)), folder)
    return build_leaderboard(measure_leaderboard(data=folder))


PAGES: dict[str, Callable[[Path], str]] = {
    "run": lambda _: render_page(CROWDED),
    "run of a search shop": lambda _: render_page(CASES["features"]),
    "run with a reference": lambda _: render_page(CASES["accuracy"]),
    "describe search": lambda _: world(WORLDS["search"]()),
    "describe recommendation": lambda _: world(recommendation(shocks=[SHOCK])),
    "evaluate": evaluation,
    "fit-world": fitted,
    "fit-world of searches": fitted_searches,
    "recommend": recommended,
    "train": lambda folder: trained(folder, imported, ["random", "linear", "mlp"]),
    "train boosts": lambda folder: trained(folder, lambda at: write_searches(at, 400), ["item-critic", "q-offline"]),
    "leaderboard": lambda folder: render_sections(
        "leaderboard", "Who?", standings(folder), ["python", "-m", "studies"]
    ),
    "study": lambda _: render_sections(
        "boost-curves", "Which?", build_study_page(made_up()), ["python", "-m", "studies"]
    ),
}

OF_EACH_KIND = ("run", "describe search", "evaluate", "fit-world of searches", "leaderboard")
"""Pages that hold each kind of section and figure; the others are for the slow tests."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(str(CHROMIUM), tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize(
    "name", [name if name in OF_EACH_KIND else pytest.param(name, marks=pytest.mark.slow) for name in PAGES]
)
def test_a_page_is_readable_at_every_width(name: str, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGES[name](tmp_path / "folder"), encoding="utf-8")
    browser.open(page, WIDTHS[0])
    for width in WIDTHS:
        browser.resize(width)
        browser.run("new Promise(done => setTimeout(done, 300))")  # pages wait a moment before they draw again
        assert browser.run(MEASURE) == [], width
    browser.dress("dark")
    assert browser.run(MEASURE) == [], "dark"
    assert browser.complaints() == []
    answer = browser.run("document.querySelector('.answer').textContent")
    assert answer.endswith(".")
    assert len(answer) <= ANSWER
    size = "parseFloat(getComputedStyle(document.querySelector('.answer')).fontSize)"
    assert browser.run(size) >= READABLE
    assert faint_series(page.read_text(encoding="utf-8")) == []


def test_what_is_wrong_is_seen(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = "<text x='5' y='20'>one</text><text x='15' y='20'>other</text><text x='380' y='20'>cut</text>"
    plot = f"<div class='js-plotly-plot' id='plot'><svg class='main-svg' width='500'>{text}</svg></div>"
    pale = "<p style='color:#aaa'>grey on white</p>"
    asks = "fetch('https://localhost:1/x').catch(() => {})"
    script = f"<script>plot._fullLayout = {{xaxis: {{_length: 50}}}}; {asks}; no()</script>"
    page.write_text(
        f"<meta name=viewport content='width=device-width'><body style='margin:0'>{plot}{pale}{script}",
        encoding="utf-8",
    )
    browser.open(page, 390)
    found = browser.run(MEASURE)
    for words in (
        *("overlap: other / one", "cut: cut", "plot of 50 px", "the page is 500 px wide"),
        "too pale, 2.3: grey on white",
    ):
        assert any(words in line for line in found)
    complaints = " ".join(browser.complaints())
    assert "https://localhost:1/x" in complaints
    assert "no is not defined" in complaints


HEADS = ("policy", "value", "p")
ROWS = (
    ("b", "+38% (10 to 60)", "&lt;0.001"),
    ("a", "\u22124%", ""),
    ("c 2", "1,900", "0.5"),
    ("c 10", "never", "0.02"),
)
CELLS = "[...document.querySelectorAll('tbody tr:not([hidden]) td:nth-child({})')].map(cell => cell.textContent)"


def table_page(folder: Path, rows: Sequence[Sequence[str]]) -> Path:
    """A page with one table; cells may not hold signs that HTML escapes."""
    page = folder / "page.html"
    table = PageTable("Numbers", HEADS, [[cell.replace("&lt;", "<") for cell in row] for row in rows])
    page.write_text(render_sections("a page", "Which?", Page("Use a.", [table]), ["zoosim"]), encoding="utf-8")
    return page


def test_a_click_on_a_head_sorts_and_a_third_restores(browser: Browser, tmp_path: Path) -> None:
    browser.open(table_page(tmp_path, ROWS), 1400)
    heads = "document.querySelectorAll('th')"
    sort = f"{heads}[1].querySelector('button').click(); {heads}[1].ariaSort"
    names = CELLS.format(1)
    assert browser.run(sort) == "descending"
    assert browser.run(names) == ["c 2", "b", "a", "c 10"]  # what is no number comes last, either way
    assert browser.run(sort) == "ascending"
    assert browser.run(names) == ["a", "b", "c 2", "c 10"]
    assert browser.run(sort) is None
    assert browser.run(names) == ["b", "a", "c 2", "c 10"]
    browser.run(f"{heads}[2].querySelector('button').click()")
    assert browser.run(names) == ["c 2", "c 10", "b", "a"]
    browser.run(f"{heads}[0].querySelector('button').focus()")
    browser.press("Enter")
    assert browser.run(names) == ["a", "b", "c 2", "c 10"]  # numbers in words by their size
    assert browser.run(f"{heads}[0].ariaSort + {heads}[2].ariaSort") == "ascendingnull"
    assert browser.complaints() == []


def test_a_number_leads_to_its_rows(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    named = [(f"policy {number % 3}", str(number), "") for number in range(12)]
    tables = [
        PageTable("Values", HEADS, [("policy 1", Link("4", "rows", "policy 1"), "")]),
        PageTable("Rows", HEADS, named, folded=True, key="rows"),
    ]
    page.write_text(render_sections("a page", "Which?", Page("Use a.", tables), ["zoosim"]), encoding="utf-8")
    browser.open(page, 390)
    assert not browser.run("document.querySelector('#rows details').open")
    browser.run("document.querySelector('a[data-filter]').click()")
    assert browser.run("document.querySelector('#rows details').open")
    names = "[...document.querySelectorAll('#rows tbody tr:not([hidden])')].map(row => row.cells[1].textContent)"
    assert browser.run(names) == ["1", "4", "7", "10"]


def test_words_filter_the_rows_of_a_long_table(browser: Browser, tmp_path: Path) -> None:
    rows = [(f"policy {number % 3}", str(number), "") for number in range(12)]
    browser.open(table_page(tmp_path, rows), 390)
    typed = "(text => {{ const box = document.querySelector('.filter input'); box.value = text; "
    typed += (
        "box.dispatchEvent(new Event('input')); return document.querySelector('[role=status]').textContent; }})({!r})"
    )
    assert browser.run(typed.format("POLICY 2")) == "4 of 12 rows"
    assert browser.run(CELLS.format(2)) == ["2", "5", "8", "11"]
    browser.run(typed.format(""))
    assert len(browser.run(CELLS.format(1))) == 12
    browser.open(table_page(tmp_path, ROWS), 390)
    assert browser.run("document.querySelector('.filter')") is None
