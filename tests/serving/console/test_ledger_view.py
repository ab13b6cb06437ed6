"""What the console says of forecasts and of the holdback."""

from tests.core.test_forecasts import forecast
from zoosim.serving.console.holdback_view import NO_HOLDBACK, holdback_panel
from zoosim.serving.console.ledger_view import ledger_panel
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, Score
from zoosim.serving.launches.holdback import Compared, HoldbackReport

TIME = 1_700_000_000_000_000


def scored(by: str, outcome: str) -> Score:
    plain = forecast(by=by, value=0.3, low=0.25, high=0.35, level=0.95, horizon=1_200).plain
    time = 0 if outcome == EARLY else TIME
    return Score(plain, outcome, 800, 0.31, 0.01, "needs 400 more decisions" if outcome == EARLY else "", time)


def test_forecasts_are_counted_by_what_made_them_and_listed_newest_first() -> None:
    panel = ledger_panel(
        [scored("zoosim train", HELD), scored("zoosim train", MISSED), scored("zoosim evaluate", EARLY)]
    )
    assert panel.sentence == "2 forecasts of 3 can be scored: 1 held."
    assert panel.kinds == [["evaluate", "1", "0", "0", "1", "0"], ["train", "2", "1", "1", "0", "0"]]
    newest = panel.rows[0]
    assert "0.3 (95%: 0.25 to 0.35)" in newest
    assert "too early: needs 400 more decisions" in newest
    assert newest[-1] == "800 of 1,200"
    assert ledger_panel([]).sentence.startswith("No forecasts")
    assert ledger_panel([scored("zoosim train", EARLY)]).sentence == "1 forecast, of which none can be scored yet."


def report(low: float, high: float, known_since: int = 0, is_paused: bool = False) -> HoldbackReport:
    compared = Compared("objective", (low + high) / 2.0, low, high, 0.2, known_since, 1.0)
    return HoldbackReport("holdback", TIME, 500, 0.95, is_paused, [compared])


def test_it_is_said_who_earns_more_and_since_when() -> None:
    better = holdback_panel(report(0.01, 0.03, TIME))
    assert better.sentence.startswith("The champion earns more than the holdback, as is known since 2023-11-14")
    assert better.tiles[0].difference == "+0.02"
    assert holdback_panel(report(-0.03, -0.01)).sentence.startswith("The holdback earns more than the champion; 500")
    assert "cannot be told yet; 500 visitors count" in holdback_panel(report(-0.01, 0.03)).sentence
    assert holdback_panel(report(0.01, 0.03, is_paused=True)).note.endswith("so no new ones count.")
    assert holdback_panel(None).sentence == NO_HOLDBACK
