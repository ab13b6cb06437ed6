"""Train learners in worlds that are hard in one way each, and write their results for the leaderboard."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import zoosim
from studies.cache import kept_array
from studies.other_learners import LEARNERS as OTHERS
from studies.other_learners import SHOPS, version_of
from studies.other_learners import train as train_other
from studies.result_files import write_result
from studies.session_axes import DECISIONS, SEEDS, VISITS, WORLDS, AxisWorld, Policy, Score, result_of, score
from studies.session_curves import Learner, LearningRun, best_actions
from studies.work import names_of, rows_by_task
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.files import make_folder
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import make_entry
from zoosim.worlds.sessions.world import Sessions

OWN = ("random", "linucb", "d-linucb", "product-linucb", "q-table", "dqn", "ppo", "planner")


def measure(
    *,
    seeds: Any = SEEDS,
    jobs: Any = None,
    visits: int = VISITS,
    learners: Any = None,
    worlds: Any = None,
    results: str | None = None,
    progress: Progress = lambda line: None,
) -> list[Score]:
    """Return what each of the `learners` learns in each of the `worlds` in so many `visits`, by seed; kept on disk.

    Learners are those of this library by default; DQN, PPO and MaskablePPO are those of Stable-Baselines3, which learn
    from as many decisions. With `results`, a folder, the result file of each is written there.
    """
    count = check_whole("axes: visits", visits, 300, 1_000_000)
    wanted = list(OWN) if learners is None else learners
    names = names_of("axes", "learner", wanted, [*OWN, *OTHERS], "[random, linucb]")
    for name in names:
        _check_is_there(name)
    chosen = names_of("axes", "world", worlds, list(WORLDS), "[base, control]")
    if results is not None:
        if not isinstance(results, str):
            raise ConfigError(f"axes: results: got {results!r}, expected the name of a folder")
        make_folder(Path(results))  # before anything is learned that could not be written there
    tasks = [(name, world, seed) for name in names for world in chosen for seed in parse_seeds(seeds)]
    scores = rows_by_task(partial(_kept, count), tasks, jobs=jobs, words=_words, progress=progress)
    if results is not None:
        for name in names:
            _write([each for each in scores if each.learner == name_on_board(name)], name, count, results)
    return scores


def name_on_board(name: str) -> str:
    """Return a learner's name on the leaderboard."""
    return f"{name} (sb3)" if name in OTHERS else name


def _check_is_there(name: str) -> None:
    if name in OTHERS and find_spec(OTHERS[name][0]) is None:
        raise ConfigError(f"axes: {name} needs stable-baselines3 and sb3-contrib; run make bench")


def _words(task: tuple[str, str, int]) -> str:
    name, world, seed = task
    return f"{name}, {world}, seed {seed}"


def _kept(visits: int, task: tuple[str, str, int]) -> list[Score]:
    name, world, seed = task
    learner = sorted(OTHERS[name][1].items()) if name in OTHERS else make_entry(name).fingerprint
    key = (learner, name, sorted(WORLDS[world].config.items()), world, seed, visits)
    return [Score(**json.loads(str(kept_array("axes", key, partial(_text, visits, task)))))]


def _text(visits: int, task: tuple[str, str, int]) -> str:
    name, world, seed = task
    train = partial(_train_other if name in OTHERS else _train_own, name, visits)
    found = score(name_on_board(name), WORLDS[world], seed, train)
    return json.dumps(asdict(found))


def _train_own(name: str, visits: int, world: AxisWorld, seed: int) -> Policy:
    """Train a policy of this library on the visitors of a world; return what it then takes for best."""
    run = LearningRun(Learner(name, name, {}), Sessions(seed, visits, **world.config), visits)
    run.go_on(visits)
    shop = Sessions(seed, visits, **world.config)
    if not run.policy.learns:  # `random`
        return np.full(world.truth.optimum.shape, 1.0 / world.truth.laws.kinds)
    return partial(best_actions, shop, run.policy)


def decisions_for(visits: int) -> int:
    """Return from how many decisions others learn, where policies of this library learn from so many visits."""
    return round(DECISIONS * visits / VISITS)


def _train_other(name: str, visits: int, world: AxisWorld, seed: int) -> Policy:
    return train_other(name, world.environment(SHOPS), seed, decisions_for(visits))


def _write(scores: Sequence[Score], name: str, visits: int, folder: str) -> None:
    if name in OTHERS:
        library, version = version_of(name)
        budget = f"{decisions_for(visits):,} decisions"
    else:
        library = "zoosim"
        version = zoosim.__version__
        budget = f"{visits:,} visits"
    write_result(result_of(scores, library, version, budget), folder)
