"""What studies keep on disk: under their own code and the code that it imports, in `studies` and in zoosim."""

from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path

import numpy as np
import pytest

from studies.cache import kept_array
from studies.study import STUDIES
from tests.caches import use_cache
from zoosim.core import sources
from zoosim.core.sources import closure_of, source_digest


def forget() -> None:
    """Read the sources again, as another process would."""
    for name in ("source_digest", "closure_of", "_read", "_outline_of", "_passed_on", "_file_of"):
        getattr(sources, name).cache_clear()


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_digest(name: str) -> None:
    assert len(source_digest(f"studies.{name.replace('-', '_')}")) == 16


def test_a_digest_covers_shared_modules_of_studies_and_the_package() -> None:
    reached = closure_of("studies.ope_verdict.measuring")
    assert {"studies.known_logs", "studies.ope_verdict.cases", "zoosim.off_policy.evaluate"} <= reached
    assert "studies.search_logs" not in reached


def test_figures_are_made_anew_when_code_that_they_come_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "made_up_studies"
    package.mkdir()
    files = {
        "__init__.py": "",
        "laws.py": "HEIGHT = 1.0\n",
        "other.py": "DEPTH = 1.0\n",
        "measuring.py": "from made_up_studies.laws import HEIGHT\n\n\n"
        "def heights(calls, n):\n    calls.append(n)\n    return [HEIGHT] * n\n",
    }
    for file, text in files.items():
        (package / file).write_text(text, encoding="utf-8")
    invalidate_caches()
    work = import_module("made_up_studies.measuring").heights
    calls = list[int]()

    def ask() -> None:
        forget()
        np.testing.assert_array_equal(kept_array("heights", (3,), partial(work, calls, 3)), np.ones(3))

    ask()
    ask()
    (package / "other.py").write_text("DEPTH = 2.0\n", encoding="utf-8")
    ask()
    assert calls == [3]
    (package / "laws.py").write_text("HEIGHT = 1.5\n", encoding="utf-8")
    ask()
    assert calls == [3, 3]
    forget()
