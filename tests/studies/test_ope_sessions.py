"""The study of logs of visitors who come back: figures by hand, and what its page says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from studies.ope_sessions import build_page, measure
from studies.ope_sessions.measuring import Judged, summed
from studies.ope_sessions.page import trusted_sentence
from studies.session_logs import FAR, NEAR, TARGETS
from tests.caches import use_cache
from zoosim.core.errors import ConfigError
from zoosim.off_policy.actions.lives import ESTIMATORS
from zoosim.off_policy.verdict import TRUST, WEAK, WORDS


def test_figures_by_hand() -> None:
    """Values 9, 12 and 11 of a truth of 10; the second interval does not hold it, and is trusted, as is the third."""
    verdicts = [WORDS.index(word) for word in (WEAK, TRUST, TRUST)]
    found = np.array([[9.0, 8.0, 11.0], [12.0, 11.0, 13.0], [11.0, 9.0, 12.0]])
    figures = np.column_stack([found, verdicts, [1.0, 0.9, 1.1], [100.0, 300.0, 200.0]])
    row = summed(NEAR, "fqe", 10.0, figures)
    assert row.bias == pytest.approx(0.1)
    assert row.error == pytest.approx(np.sqrt(0.02))
    assert (row.held, row.trust, row.weak, row.do_not_use, row.trusted_held) == (2, 2, 1, 0, 1)
    assert (row.mean_weight, row.ess) == (1.0, 200.0)


def made_up(trusted_far: int) -> list[Judged]:
    near = Judged(NEAR, "fqe", 7.26, 200, 0.0, 0.02, 190, 160, 40, 0, 152, 1.0, 700.0)
    far = replace(near, target=FAR[0], error=0.5, held=60, trust=trusted_far, weak=0, do_not_use=200 - trusted_far)
    return [near, replace(near, estimator="mis", error=0.03), replace(far, trusted_held=0)]


def test_the_page_says_whether_to_rely_on_the_verdict() -> None:
    page = build_page(made_up(0))
    assert page.answer == "Rely on trust: 0 of the far estimates have it; the near one is 2.0% off (fqe)."
    assert build_page(made_up(3)).answer.startswith("Do not rely on trust: 3 of the far estimates")
    assert "95.0% (92.0 to 96.9) of the time" in trusted_sentence(made_up(0))
    assert [row[1] for row in page.tables[0].rows] == ["fqe", "mis", "fqe"]


@pytest.mark.slow
def test_what_was_measured_is_summed_by_target_and_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path)
    rows = measure(seeds="0:2", visitors=200, jobs=1)
    assert [(row.target, row.estimator) for row in rows] == [(t, e) for t in TARGETS for e in ESTIMATORS]
    assert all(row.trust + row.weak + row.do_not_use == row.logs == 2 for row in rows)
    assert all(row.do_not_use == 2 for row in rows if row.target in FAR)
    with pytest.raises(ConfigError, match="visitors"):
        measure(visitors=10)
