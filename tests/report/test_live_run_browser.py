"""The live page of a run in a real browser: readable at every width, live, by keyboard, and asking nobody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.axe import violations
from tests.report.browser import Browser, Scheme, started
from tests.report.test_browser import CHROMIUM, MEASURE
from tests.report.test_live_run import FACTS, figures, progress
from tests.waiting import eventually
from zoosim.live.server import PageServer
from zoosim.report.live_run import live_page, live_panels

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

WIDTHS = (390, 768, 1_400)
OVERLAPS = (Path(__file__).parent / "overlaps.js").read_text(encoding="utf-8")
OPENED = "for (const each of document.querySelectorAll('details')) each.open = true"
STATE = "document.getElementById('live-state').textContent"
SENTENCE = "document.querySelector('.answer').textContent"


class Run:
    """A run whose page this is."""

    ending = ""
    progress = progress(figures("random", 0.4), figures("adaptive"), figures("a-policy-with-quite-a-long-name", 0.8))

    def page(self) -> str:
        return live_page(FACTS, self.progress, self.ending, 0.0)

    def panels(self) -> str:
        return live_panels(FACTS, self.progress, self.ending)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(str(CHROMIUM), tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def server(run: Run) -> Iterator[PageServer]:
    server = PageServer(run.page, run.panels)
    yield server
    server.close()


def open_page(browser: Browser, server: PageServer, width: int, scheme: Scheme = "light") -> None:
    browser.open(server.url, width, scheme)
    eventually(lambda: browser.run(STATE).startswith("Live"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_for_everybody(browser: Browser, server: PageServer, width: int, scheme: Scheme) -> None:
    open_page(browser, server, width, scheme)
    browser.run(OPENED)
    browser.run("dispatchEvent(new Event('resize')); new Promise(requestAnimationFrame)")
    assert [*browser.run(MEASURE), *browser.run(OVERLAPS), *violations(browser)] == []
    assert browser.complaints(own=server.url) == []


def test_the_page_is_live_and_keeps_what_somebody_opened(browser: Browser, server: PageServer, run: Run) -> None:
    open_page(browser, server, WIDTHS[0])
    browser.run("document.getElementById('details-fraction').open = true")
    run.ending = "The run is over. adaptive wins."
    eventually(lambda: "adaptive wins" in browser.run(SENTENCE))
    assert browser.run("document.getElementById('details-fraction').open")
    server.close()
    eventually(lambda: browser.run(STATE).startswith("The run's process has ended"))
    assert "adaptive wins" in browser.run(SENTENCE)  # what was there stays readable


def test_the_page_is_used_by_keyboard(browser: Browser, server: PageServer) -> None:
    open_page(browser, server, WIDTHS[0])
    controls = "[...document.querySelectorAll('a[href], summary, [tabindex]')].filter(each => each.checkVisibility())"
    browser.assert_used_by_keyboard(controls, fewest=5)
