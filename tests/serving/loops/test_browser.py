"""The page that lists loops in a real browser: readable at every width, live, and asking nobody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zoosim
from tests.report.axe import violations
from tests.report.browser import Browser, Scheme, started
from tests.report.test_browser import CHROMIUM, MEASURE
from tests.serving.process import ServiceProcess, serving_loops
from tests.serving.shop import make_model
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

OVERLAPS = (Path(__file__).parents[2] / "report" / "overlaps.js").read_text(encoding="utf-8")
LOOPS = "[...document.querySelectorAll('#panel-loops li')].map(each => each.textContent).join('; ')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(str(CHROMIUM), tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def service(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service of two loops: one with a model, and one that waits for its first requests."""
    with serving_loops(tmp_path_factory.mktemp("loops") / "all") as running:
        zoosim.loops("add", "home", model=model, url=running.url)
        zoosim.loops("add", "the-basket-with-quite-a-long-name", url=running.url)
        yield running


def open_list(browser: Browser, service: ServiceProcess, width: int, scheme: Scheme = "light") -> None:
    browser.open(service.url, width, scheme)
    eventually(lambda: browser.run("document.getElementById('live-state').textContent").startswith("Live"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1_400])
def test_the_list_is_for_everybody(browser: Browser, service: ServiceProcess, width: int, scheme: Scheme) -> None:
    open_list(browser, service, width, scheme)
    assert "decides for 100% of the visitors" in browser.run(LOOPS)
    assert [*browser.run(MEASURE), *browser.run(OVERLAPS), *violations(browser)] == []
    assert browser.complaints(own=service.url) == []


def test_the_list_is_live_and_leads_to_a_console_by_keyboard(
    browser: Browser, service: ServiceProcess, model: Path
) -> None:
    open_list(browser, service, 390)
    zoosim.loops("add", "checkout", model=model, url=service.url)
    eventually(lambda: "checkout" in browser.run(LOOPS))
    browser.run("document.querySelector('#panel-loops a[href=\"loops/checkout/\"]').focus()")
    browser.press("Enter")
    eventually(lambda: "Console of" in browser.run("document.title"))
    assert browser.run("document.querySelector('header a').textContent") == "All loops"
