"""The optimum of a search shop, from Python and from the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import zoosim
from tests.caches import use_cache
from tests.test_cli import refusal
from zoosim.cli import app
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.terminal.optimum import REWARDS, print_optimum
from zoosim.worlds.search import optimum as module

SMALL = ["--set", "env.n_products=40", "--set", "env.n_users=30", "--set", "env.a_max=0.5"]


@pytest.fixture(autouse=True)
def few_visits(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    use_cache(monkeypatch, tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(module, "USUAL", module.SearchBudget(30, 60, 300))


def test_the_table_and_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    app(["optimum", "--seed", "3", *SMALL], standalone_mode=False)
    shown = capsys.readouterr()
    assert "premium" in shown.out
    assert "Templates reach" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "price_hunter: searching by 30 visits" in shown.err
    app(["optimum", "--seed", "3", *SMALL, "--json"], standalone_mode=False)
    printed = capsys.readouterr()
    assert printed.err == ""  # found on disk
    frame = zoosim.optimum(seed=3, settings=SMALL[1::2])
    price = [f"{boosts[FEATURES.index('price')]:+.2f}" for boosts in frame["boosts"]]
    assert [line.split()[1:] for line in shown.out.splitlines() if line.startswith("price ")] == [price]
    assert json.loads(printed.out) == json.loads(frame.write_json())
    assert frame["group"].to_list() == ["price_hunter", "pl_lover", "premium", "litter_heavy"]


def test_boosts_of_many_kinds_of_visits_stand_in_several_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Five kinds of visits are one more than stand side by side; the boosts of kind n are all n / 10."""
    numbers = pl.Series(range(5))
    frame = pl.DataFrame({name: [1.0] * 5 for name in ("share", *REWARDS, "template_error", "error")}).with_columns(
        group=pl.Series([f"segment {n}, browse" for n in numbers]),
        template=pl.lit("premium"),
        boosts=pl.Series([[n / 10] * len(FEATURES) for n in numbers]),
    )
    print_optimum(frame)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    prices = [line.split()[1:] for line in lines if line.startswith("price ")]
    assert prices == [["+0.00", "+0.10", "+0.20", "+0.30"], ["+0.40"]]


def test_the_market_of_a_later_visit() -> None:
    """From visit 10,000 on premium visitors of market-shifts like private labels, and dear goods no more."""
    settings = [*SMALL[1::2], "env.a_max=5.0"]
    first, later = (zoosim.optimum("market-shifts", seed=3, step=step, settings=settings) for step in (0, 10_000))
    assert (first["template"][2], later["template"][2]) == ("premium", "private-label")
    assert later["share"].to_list() != first["share"].to_list()


def test_what_does_not_fit_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All visitors are price hunters, so a mix that gives them .45 cannot be."""
    segments = SearchConfig().model_dump()["segments"]
    for name, segment in segments.items():
        segment["share"] = float(name == "price_hunter")
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({"env": {"segments": segments}}))
    arguments = ["--by", "all", "--config", str(tmp_path / "one.yaml"), *SMALL]
    app(["optimum", "market-shifts", *arguments], standalone_mode=False)
    printed = capsys.readouterr()
    assert "note: shock 'premium shoppers save' at step 10000 is dropped: it does not fit this world" in printed.err
    assert "together" not in printed.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--by", "week"), "zoosim: by: got 'week', expected all, segment or cell"),
        (("gauntlet",), "zoosim: optimum: gauntlet is no search world; give search, template-bandits or market-shifts"),
        (("--step", "-1"), "zoosim: step: got -1, expected a whole number, 0 to 100,000,000"),
        (
            ("--set", "run.steps=5"),
            "zoosim: --set: got run.steps, expected env.KEY, since a description has no policies",
        ),
    ],
)
def test_refused_with_one_line(arguments: tuple[str, ...], line: str, tmp_path: Path) -> None:
    assert refusal("optimum", *arguments, cwd=tmp_path) == line


@pytest.mark.parametrize("call", [zoosim.optimum, zoosim.describe])
def test_keys_in_the_place_of_the_world_are_refused_with_one_line(call: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigError, match=r"got \{'n_products': 5\} as the world, expected its name; give .* config="):
        call({"n_products": 5})


@pytest.mark.parametrize("call", [zoosim.optimum, zoosim.describe])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": 3}, "config: got 3, expected the path of a YAML file"),
        ({"settings": 3}, "settings: got 3, expected a list"),
        ({"settings": "env.n_products=60"}, "settings: got 'env.n_products=60', expected a list"),
        ({"settings": [3]}, "--set: got 3, expected PATH=VALUE"),
    ],
)
def test_options_of_other_types_are_refused(call: Callable[..., object], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call("search", **options)
