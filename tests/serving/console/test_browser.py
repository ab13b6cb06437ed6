"""The console of a running service in a real browser: readable at every width, live, and asking nobody else."""

from collections.abc import Iterator

import pytest

import zoosim
from tests.report.browser import Browser, started
from tests.report.test_browser import CHROMIUM, MEASURE, WIDTHS
from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import make_model
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

SENTENCE = "document.querySelector('.answer').textContent"
FOCUSED = "document.activeElement.id || document.activeElement.textContent.trim() || document.activeElement.tagName"


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
        decide(running, 20)
        zoosim.deploy("launch", model, url=running.url, who="maya", why="ahead in the rehearsal")
        decide(running, 20)
        yield running


def decide(service: ServiceProcess, count: int) -> None:
    with zoosim.Client(service.url) as client:
        for number in range(count):
            decision = client.decide({"country": "de"}, visitor_id=f"{number}")
            if number % 3 == 0:
                client.give_feedback(decision.id, {"click": 1.0})


def test_the_console_is_readable_at_every_width(browser: Browser, service: ServiceProcess) -> None:
    for width in WIDTHS:
        browser.open(service.url, width)
        browser.run("new Promise(done => setTimeout(done, 300))")  # the first panels come
        assert browser.run(MEASURE) == [], width
    browser.dress("dark")
    assert browser.run(MEASURE) == [], "dark"
    assert browser.complaints(own=service.url) == []


def test_the_console_is_live_and_keeps_what_somebody_opened(browser: Browser, service: ServiceProcess) -> None:
    browser.open(service.url, WIDTHS[0])
    browser.run("document.getElementById('details-curve').open = true")
    assert "decides for" in browser.run(SENTENCE)
    decided = "document.querySelector('#panel-arms tbody td:nth-of-type(5)').textContent"
    eventually(lambda: browser.run(decided) >= "20")
    before = browser.run(decided)
    decide(service, 10)
    eventually(lambda: browser.run(decided) != before)
    assert browser.run("document.getElementById('details-curve').open")
    assert browser.run("document.getElementById('live-state').textContent").startswith("Live")


def test_the_console_is_used_by_keyboard(browser: Browser, service: ServiceProcess) -> None:
    browser.open(service.url, WIDTHS[0])
    browser.press("Tab")
    assert browser.run(FOCUSED) == "Skip to what decides"
    for _ in range(30):
        browser.press("Tab")
        if browser.run(FOCUSED) == "id":
            break
    browser.run("document.activeElement.value = 'unknown'")
    browser.events.clear()
    browser.press("Enter")
    eventually(lambda: browser.run("document.title").startswith("No such decision"))
