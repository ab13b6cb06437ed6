"""Results in a Python session: a few lines, an escaped table, data frames and a page."""

import sys
import webbrowser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import polars as pl
import pytest

import zoosim
from tests.serving.shop import make_model
from zoosim.core.errors import ConfigError
from zoosim.core.tables import Table, table_of_rows
from zoosim.core.tabular import MOST_ROWS, TabularResult

EVIL = "<script>alert(1)</script>"


class Named(TabularResult):
    """A result with as many rows as are asked for, named as somebody mean would."""

    def __init__(self, n: int) -> None:
        self._n = n

    def _headline(self) -> str:
        return f"{self._n} rows of {EVIL}"

    def _tables(self) -> list[Table]:
        return [table_of_rows(EVIL, ("policy", "value", "value"), [(EVIL, f"{i}", "0.5") for i in range(self._n)])]


def test_long_tables_are_cut_in_a_session() -> None:
    lines = repr(Named(MOST_ROWS + 5)).splitlines()
    assert len(lines) == 1 + 2 + MOST_ROWS + 1
    assert lines[-1] == "and 5 more rows: to_polars() has all"
    assert max(map(len, lines)) <= 80


def test_whatever_a_result_holds_is_escaped() -> None:
    assert "<script>" not in Named(2)._repr_html_()
    assert "<script>" not in Named(2)._page()


def test_frames_hold_all_rows() -> None:
    frame = Named(20).to_polars()
    assert frame.shape == (20, 3)
    assert frame.columns == ["policy", "value 2", "value 3"]


def test_pandas_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        Named(1).to_pandas()
    pandas = ModuleType("pandas")
    pandas.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert Named(1).to_pandas() == {"policy": [EVIL], "value 2": ["0"], "value 3": ["0.5"]}


def test_pages_are_shown_where_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: pytest.fail("nobody sits before it"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    Named(1).show()
    address = capsys.readouterr().out.removeprefix("Page: ").strip()
    assert "rows of" in Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    shown: list[str] = []
    notebook = SimpleNamespace(HTML=str, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    Named(1).show()
    assert shown[0].startswith("<iframe srcdoc=")
    assert capsys.readouterr().out == ""


def test_models_say_what_they_are(tmp_path: Path) -> None:
    path = make_model(tmp_path, policy="linear")
    model = zoosim.load(path)
    assert len(repr(model).splitlines()) < 25
    assert "trained on" in repr(model)
    assert "<table>" in model._repr_html_()
    assert isinstance(model.to_polars(), pl.DataFrame)
    description = zoosim.describe(path)
    assert repr(description) == repr(model)
    assert description.to_polars().equals(model.to_polars())
    assert zoosim.describe(path, out=tmp_path / "page").path.read_text(encoding="utf-8").startswith("<!doctype html>")
