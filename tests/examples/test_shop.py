"""The example shop: what it promises of itself, and the way from its tables to a model, by the commands of `run.sh`."""

import importlib.util
import os
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from zoosim.cli import app

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "shop"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script, imported."""
    spec = importlib.util.spec_from_file_location("example_shop", FOLDER / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def commands() -> list[list[str]]:
    """Return the commands of `zoosim` that `run.sh` gives, with one policy that is quickly trained."""
    lines = [line for line in (FOLDER / "run.sh").read_text(encoding="utf-8").splitlines() if line.startswith("zoosim")]
    script = "\n".join(lines).replace("$shop", ".")
    for slow in ("mlp", "linucb", "adaptive"):
        script = script.replace(f"--policy {slow} ", "")
    return [shlex.split(line)[1:] for line in script.splitlines()]


def test_the_shop_is_what_it_says(example: ModuleType) -> None:
    """Seed 0: 4% of the impressions are clicked, within 4 standard errors, and chances add up to 1."""
    shop = example.make_shop(0)
    log = example.make_log(shop, 0)
    rate = log["click"].sum() / log.height
    assert abs(rate - example.CLICK_RATE) < 4 * (example.CLICK_RATE / log.height) ** 0.5
    assert 0.02 < (log["revenue"] > 0).sum() / log.height < 0.04
    is_clicked = log["click"].to_numpy() > 0
    place = {name: number for number, name in enumerate(shop.products["item"])}
    expected = example.revenue_of_clicks(shop)[[place[name] for name in log["item"]]]
    surplus = (log["revenue"].to_numpy() - expected)[is_clicked]
    assert abs(surplus.mean()) < 4 * surplus.std() / is_clicked.sum() ** 0.5
    assert log["age"].null_count() > 0
    assert log.height / log["customer"].n_unique() > 5
    chances = example.logging_policy(shop)
    assert abs(chances.sum(axis=1) - 1.0).max() < 1e-12
    assert log.equals(example.make_log(example.make_shop(0), 0))


@pytest.mark.slow
def test_its_commands_lead_to_a_model_that_earns_more(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mixed-effects` or `linear` on seed 1: at least twice the true click rate of the logged choices (4%)."""
    monkeypatch.chdir(tmp_path)
    example.make(Path(), 1)
    given = commands()
    assert len(given) == 4
    for command in given:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    monkeypatch.setattr(example, "VISITS", 300)
    example.judge(Path("model.zoosim"), 1)
    rate, logged = (float(percent) for percent in re.findall(r"([\d.]+)%", capsys.readouterr().out)[-2:])
    assert logged == pytest.approx(4.0, abs=0.05)
    assert rate > 2 * logged
    assert os.access(FOLDER / "run.sh", os.X_OK)
