"""The page of a run while it goes on."""

from collections import Counter

import numpy as np
import pytest

from zoosim.arena.watching import DONE, RUNNING, WAITING, Curve, PolicyFigures, RunProgress
from zoosim.report.live_run import MOST_LINES, RunFacts, live_page, live_panels, sentence
from zoosim.worlds.facts import AMOUNTS, CLICKS

FACTS = RunFacts("gauntlet", "Which is best?", "product", "visit", CLICKS, [(400, "cats")], False)
N = 12


def curve(mean: float, known: int = N) -> Curve:
    values = np.where(np.arange(N) < known, mean, np.nan)
    return Curve(values, values - 0.1, values + 0.1)


def figures(name: str, mean: float = 0.95, known: int = N) -> PolicyFigures:
    states = Counter({DONE: 1, RUNNING: 1, WAITING: 2})
    interval = (mean, mean - 0.1, mean + 0.1)
    shares = {0: 0.7, 3: 0.2, 9: 0.1}
    return PolicyFigures(name, states, curve(mean / 2, known), curve(mean, known), interval, interval, shares)


def progress(*policies: PolicyFigures, seconds: float | None = 42.0) -> RunProgress:
    return RunProgress(3, 12, 0.333, seconds, np.arange(1, N + 1) * 100, [*policies])


def test_it_says_how_far_the_run_is() -> None:
    assert sentence(progress()) == "3 of 12 trials are over, 33% of the visits; about 42 s left."
    assert "about 5 min left" in sentence(progress(seconds=300.0))
    assert "is not known yet" in sentence(progress(seconds=None))


def test_panels_have_curves_shocks_trials_and_shares_each_with_its_table() -> None:
    html = live_panels(FACTS, progress(figures("greedy", 0.8), figures("adaptive")), "")
    assert html.index("adaptive</th><td>1") < html.index("greedy</th><td>1")  # the best so far at the top
    assert html.count("<polygon") == 2 * 2 * 2  # policies, figures, and sizes
    assert "<b>cats</b>, at visit 400" in html
    assert "95.0% (85.0% to 100.0%)" in html
    assert html.count("As a table") == 3
    assert '<progress id="progress" max="100" value="33">' in html
    assert "product 3" in html


def test_the_page_says_how_the_run_ended() -> None:
    html = live_page(FACTS, progress(figures("greedy")), "The run is over. greedy wins.", 0.0)
    assert "The run is over. greedy wins." in html
    assert "<progress" not in html
    assert "Which is best?" in html


def test_of_many_policies_the_best_are_drawn_and_all_are_listed() -> None:
    policies = [figures(f"policy-{number}", 0.5 + number / 100) for number in range(MOST_LINES + 2)]
    html = live_panels(FACTS, progress(*policies), "")
    assert f"Drawn are the {MOST_LINES} policies that are ahead" in html
    assert html.count("<polyline") == MOST_LINES * 4
    assert 'scope="row" class="text">policy-0<' in html


@pytest.mark.parametrize("known", [0, 1])
def test_there_is_nothing_to_draw_in_the_beginning(known: int) -> None:
    unknown = (None, None, None)
    waiting = Counter({WAITING: 4})
    nobody = PolicyFigures("greedy", waiting, curve(0.5, known), curve(0.9, known), unknown, unknown, {})
    html = live_panels(FACTS, progress(nobody), "")
    assert "Nothing to draw" in html
    assert "Nobody has chosen anything yet" in html


def test_boosts_have_no_shares_and_names_are_escaped() -> None:
    facts = FACTS._replace(unit="", reward=AMOUNTS, shocks=[], shocks_differ=True)
    html = live_panels(facts, progress(figures("<b>")), "")
    assert "vectors of numbers" in html
    assert "shocks of its own" in html
    assert "<b></th>" not in html
    assert "&lt;b&gt;" in html
