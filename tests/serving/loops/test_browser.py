"""The page that lists loops in a real browser: readable, live, and leading to the consoles."""

from pathlib import Path

import pytest

import zoosim
from tests.report.browser import started
from tests.report.test_browser import CHROMIUM
from tests.serving.console.test_browser import WIDTHS, complaints
from tests.serving.process import serving_loops
from tests.serving.shop import make_model
from tests.waiting import eventually
from zoosim.serving.loops.client import LoopsClient
from zoosim.serving.loops.folder import LOOP_FILE

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def test_the_list_of_loops_is_for_everybody_live_and_leads_to_consoles(tmp_path: Path) -> None:
    content = make_model(tmp_path).read_bytes()
    (tmp_path / "loops" / "ill").mkdir(parents=True)
    (tmp_path / "loops" / "ill" / LOOP_FILE).write_text("waiting: 3\n")
    text, state = "document.body.innerText", "document.getElementById('live-state').textContent"
    with (
        serving_loops(tmp_path / "loops", wait=0.5) as service,
        LoopsClient(service.url, timeout=120.0) as loops,
        started(str(CHROMIUM), tmp_path / "profile") as browser,
    ):
        loops.add("home", content)
        for width in (WIDTHS[0], WIDTHS[-1]):
            browser.open(service.url, width)
            eventually(lambda: browser.run(state).startswith("Live"))
            assert complaints(browser) == []
            assert browser.complaints(own=service.url) == []
        assert "ill cannot be opened" in browser.run(text)
        with zoosim.Client(service.url, loop="home") as shop:
            shop.give_feedback(shop.decide({"country": "de"}).id, {"click": 1.0})
        eventually(lambda: "it has learned from 1 decisions" in browser.run(text))
        browser.run("document.querySelector('a[href=\"loops/home/\"]').click()")
        eventually(lambda: browser.run("document.title").startswith("Console of home"))
        eventually(lambda: browser.run(state).startswith("Live"))
        assert browser.complaints(own=service.url) == []
