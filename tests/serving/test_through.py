"""`zoosim run --through URL`: a running service decides for the visitors of a simulated shop."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import zoosim
from benchmarks.quality.round_trip import save_untrained
from tests.serving.process import ServiceProcess, serving
from zoosim.cli import app
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ConfigError
from zoosim.serving.served_log import read_served_log
from zoosim.worlds.recommendation.world import build_world

VISITS, DELAY, WAIT = 200, 20, 2.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("through")
    save_untrained(build_world(EnvConfig(), seed=0), 0, folder / "model.zoosim")
    with serving(folder / "service", folder / "model.zoosim", wait=WAIT) as process:
        yield process


@pytest.mark.timeout(200)
def test_a_service_competes_with_policies_of_the_arena(service: ServiceProcess, tmp_path: Path) -> None:
    """What the report says of it is what the service logged and was told."""
    settings = [f"run.delay={DELAY}"]
    for place, steps in (("first", 50), ("second", VISITS)):
        result = zoosim.run(
            "gauntlet", policies=["random"], steps=steps, settings=settings, out=tmp_path / place, through=service.url
        )
        assert not result.failures
        assert set(result.policies["policy"]) == {"service", "random"}
        assert any(note.startswith(f"service: adaptive at {service.url}") for note in result.notes)
    rows = result.rows.filter(pl.col("policy") == "service").sort("step")
    time.sleep(WAIT + 0.2)
    service.wait_for_learner()
    log = read_served_log(service.folder).log
    told = VISITS - DELAY
    np.testing.assert_array_equal(log.rewards[-VISITS:][:told], rows["reward"].to_numpy()[:told])
    assert log.rewards[-DELAY:].sum() == 0.0, "rewards of the last visits never come"
    world = build_world(EnvConfig(), seed=0)
    ids = world.all_products()
    assert ids is not None
    shown = [log.names[action] for action in log.actions[-VISITS:]]
    assert shown == [f"{ids.ids[action]}" for action in rows["action"]]
    users = [world.context(world.arrive(step)).user for step in range(VISITS)]
    np.testing.assert_allclose(log.features[-VISITS:], users)
    assert zoosim.read_run(tmp_path / "second").verdict == result.verdict


def test_what_a_service_cannot_do_is_refused(service: ServiceProcess, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got 2 seeds, expected one"):
        zoosim.run("gauntlet", seeds=2, steps=10, through=service.url)
    with pytest.raises(ConfigError, match="leave out --log"):
        zoosim.run("gauntlet", steps=10, log=True, through=service.url)
    arguments = ["run", "gauntlet", "--steps", "10", "--through", "http://127.0.0.1:1", "--out", f"{tmp_path / 'run'}"]
    refusal = CliRunner().invoke(app, arguments)
    assert isinstance(refusal.exception, ConfigError)
    assert "cannot be reached" in str(refusal.exception)
    assert not (tmp_path / "run").exists()
