"""What `zoosim deploy` prints of a service."""

from typing import Any

import numpy as np
import pytest

from zoosim.monitoring.launch_plan import Plan
from zoosim.monitoring.shadow import Judged, ShadowEvidence
from zoosim.serving.launches.state import Launch
from zoosim.serving.shadows.report import report_of
from zoosim.terminal.deployment import print_deployment

PLAN = {"steps": [0.01, 0.05, 0.1, 0.25, 0.5], "hours": 2.0, "least": 100}
METRIC = {"reward": "objective", "role": "success", "difference": None, "low": None, "high": None}
REPORT = {
    "step": 1,
    "sentence": "Cannot tell yet: about 9,000 more decisions.",
    "visitors": 1_234,
    "step_visitors": 56,
    "metrics": [{**METRIC, "champion": None, "margin": None}],
    "checks": [],
}


def deployment(**launch: Any) -> dict[str, Any]:
    fields = {
        "plan": Plan.model_validate(PLAN).model_dump(mode="json"),
        "state": "running",
        "step": 1,
        "since": 1_764_000_000_000_000,
    }
    names = Launch.__struct_fields__
    ended: dict[str, Any] = {"verdict": "", "visitors": 0, "changes": {}}
    standing = {"number": 2, "arm": "new", "model": "b" * 32, "said": [], **ended, **fields}
    standing |= {"by_person": False, "reason": "", "report": REPORT, **launch}
    assert set(standing) == {*names, "report"}
    arm = {"model": "a" * 32, "policy": "adaptive", "share": 0.95, "role": "champion", "state": 3, "learned": {}}
    arm |= {"failed": 7, "seconds": 0.0012}
    change = {"time": 1.764e9, "who": "ann\x1b[31m", "why": "better\n2026: by bob: promoted", "shares": {"new": 0.05}}
    return {
        "arms": {"champion": arm},
        "frozen": False,
        "rules": {},
        "models": {},
        "launch": standing,
        "shadows": {},
        "history": [change],
    }


def test_floors_are_printed_by_arm(capsys: pytest.CaptureFixture[str]) -> None:
    status = deployment()
    status["arms"]["champion"]["floors"] = ["cm2: floor 1.2 per visit, 0.4 +- 0.1 of late, cannot be met"]
    print_deployment(status)
    assert "champion: cm2: floor 1.2 per visit, 0.4 +- 0.1 of late, cannot be met." in capsys.readouterr().out


def printed(capsys: pytest.CaptureFixture[str], **launch: Any) -> str:
    """Return what is printed, with the words of broken lines beside each other."""
    print_deployment(deployment(**launch))
    return " ".join(capsys.readouterr().out.split())


def test_a_launch_says_where_it_is_and_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys)
    assert "1.20" in out
    assert "Launch of new: running; share 2 of 5 (5.0%), since 2025-11-24 16:00 UTC." in out
    assert "Cannot tell yet: about 9,000 more decisions." in out
    assert "Next: share 10.0%, 2025-11-24 18:00 UTC at the earliest, and after 100 visitors (56 so far)." in out
    assert "No visitor counts yet." in printed(capsys, report=None)
    early = {**REPORT, "visitors": 0, "checks": [{"sentence": "no traffic: new has decided nothing."}]}
    assert "no traffic: new has decided nothing." in printed(capsys, report=early)
    waiting = printed(capsys, step=4, state="cannot tell yet")
    assert "as soon as the evidence is there" in waiting
    assert "waits for ever, here since 2025-11-24 16:00 UTC: `zoosim deploy promote new` or `rollback new`" in waiting
    plan = Plan.model_validate({**PLAN, "most_days": 7.0}).model_dump(mode="json")
    assert "At 2025-12-01 18:00 UTC it is taken back" in printed(capsys, step=4, state="cannot tell yet", plan=plan)
    assert "Said beforehand: click: soon" in printed(capsys, said=["click: soon"])
    assert "`zoosim deploy resume`" in printed(capsys, state="paused", by_person=True, reason="a holiday")
    over = printed(capsys, state="rolled back", reason="fewer orders")
    assert "Why: fewer orders." in over
    assert "Next" not in over


def test_a_shadow_says_how_often_it_chooses_alike_and_what_it_would_have_earned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    evidence = ShadowEvidence()
    rng = np.random.default_rng(0)
    print_deployment(
        {**deployment(), "shadows": {"new": report_of("new", "a/1", 0, 0, evidence.estimate()).as_plain()}}
    )
    assert "Cannot tell yet: no decision is over." in capsys.readouterr().out
    for _ in range(3_000):
        weight = float(rng.choice([0.5, 1.5]))
        evidence.update(Judged(int(rng.integers(2**63)), float(rng.random() < 0.3 * weight), weight, 0.75, 0.0))
    report = report_of("new", "a/1", 0, 0, evidence.estimate())
    print_deployment({**deployment(), "shadows": {"new": report.as_plain()}})
    out = capsys.readouterr().out
    assert "Shadow new: 3,000 decisions of the champion, objective per decision" in out
    assert "75.0%" in out
    assert f"{report.earned:.4g}" in out
    assert f"{report.difference:.4g} ({report.low:.4g} to {report.high:.4g})" in out
    assert "It would earn more than the champion: +0.0" in out


@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_reason_stays_in_its_own_change(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_deployment(deployment())
    out = capsys.readouterr().out
    assert "\x1b[31m" not in out
    assert not any(line.startswith("2026: by bob") for line in out.splitlines())
    assert max(map(len, out.splitlines())) <= int(columns)


def test_rules_of_the_shop_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_deployment({**deployment(), "rules": {"most_shown": 3, "pinned": {"1": "SKU-7"}}})
    assert "Rules of the shop: most_shown 3; pinned {'1': 'SKU-7'}." in capsys.readouterr().out
