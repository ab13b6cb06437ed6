"""The console of a running service in a real browser: readable at every width, live, and asking nobody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zoosim
from tests.report.axe import violations
from tests.report.browser import Browser, Scheme, started
from tests.report.test_browser import CHROMIUM, MEASURE
from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import make_model
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

WIDTHS = (390, 768, 1_400)
OVERLAPS = (Path(__file__).parents[2] / "report" / "overlaps.js").read_text(encoding="utf-8")
OPENED = "for (const each of document.querySelectorAll('details')) each.open = true"

CONTROLS = """
[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter(each => each.checkVisibility())
"""
"""All that can be used; panels come anew while a page is open, so these are looked up each time."""

SENTENCE = "document.querySelector('.answer').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(str(CHROMIUM), tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service that has decided for half a minute, by what its log says, and launches a model."""
    folder = tmp_path_factory.mktemp("console")
    model = make_model(folder)
    with serving(folder / "shop", model, wait=0.5) as running:
        decide(running, 20, "before")
        zoosim.deploy("launch", model, url=running.url, who="maya", why="ahead in the rehearsal")
        decide(running, 20, "after")
        yield running


def decide(service: ServiceProcess, count: int, name: str) -> None:
    with zoosim.Client(service.url) as client:
        for number in range(count):
            decision_id = f"{name}-{number}"
            decision = client.decide({"country": "de"}, visitor_id=f"{number}", decision_id=decision_id)
            if number % 3 == 0:
                client.give_feedback(decision.id, {"click": 1.0})


def open_console(browser: Browser, service: ServiceProcess, width: int, scheme: Scheme = "light") -> None:
    browser.open(service.url, width, scheme)
    live = "document.getElementById('live-state').textContent"
    eventually(lambda: browser.run(live).startswith("Live"))  # the first panels have come


def complaints(browser: Browser) -> list[str]:
    """Return all that is wrong with the page that is open, whatever can be opened on it open."""
    browser.run(OPENED)
    browser.run("dispatchEvent(new Event('resize')); new Promise(requestAnimationFrame)")
    return [*browser.run(MEASURE), *browser.run(OVERLAPS), *violations(browser)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_console_is_for_everybody(browser: Browser, service: ServiceProcess, width: int, scheme: Scheme) -> None:
    open_console(browser, service, width, scheme)
    assert complaints(browser) == []
    assert browser.complaints(own=service.url) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1_400, "dark")])
def test_decisions_are_for_everybody(browser: Browser, service: ServiceProcess, width: int, scheme: Scheme) -> None:
    for path in ("decision?id=after-0", "decisions"):
        browser.open(f"{service.url}/console/{path}", width, scheme)
        assert "probability" in browser.run("document.body.textContent")
        assert complaints(browser) == []
        assert browser.complaints(own=service.url) == []


def test_checks_of_pages_find_what_is_wrong(browser: Browser, service: ServiceProcess) -> None:
    open_console(browser, service, WIDTHS[0])
    browser.run("document.querySelector('.answer').style.marginBottom = '-60px'")
    browser.run("document.querySelector('main').insertAdjacentHTML('beforeend', '<input>')")
    lines = complaints(browser)
    assert any(line.startswith("label:") for line in lines)
    assert any(" / " in line for line in lines)


def test_the_console_is_live_and_keeps_what_somebody_opened(browser: Browser, service: ServiceProcess) -> None:
    browser.open(service.url, WIDTHS[0])
    browser.run("document.getElementById('details-earned').open = true")
    assert "decides for" in browser.run(SENTENCE)
    decided = "document.querySelector('#panel-arms tbody td:nth-of-type(6)').textContent"
    eventually(lambda: browser.run(decided) >= "20")
    before = browser.run(decided)
    decide(service, 10, "later")
    eventually(lambda: browser.run(decided) != before)
    assert browser.run("document.getElementById('details-earned').open")
    assert browser.run("document.getElementById('live-state').textContent").startswith("Live")


def test_the_console_is_used_by_keyboard(browser: Browser, service: ServiceProcess) -> None:
    open_console(browser, service, WIDTHS[0])
    browser.run(OPENED)
    browser.assert_used_by_keyboard(CONTROLS, fewest=6)


def test_a_decision_is_looked_up_by_keyboard(browser: Browser, service: ServiceProcess) -> None:
    browser.open(service.url, WIDTHS[0])
    browser.run("document.getElementById('id').focus()")
    browser.run("document.activeElement.value = 'unknown'")
    browser.events.clear()
    browser.press("Enter")
    eventually(lambda: browser.run("document.title").startswith("No such decision"))
