"""Time a decision each way in one process on one thread: the same critic, the same requests, in one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from studies.held_out import open_shop, spec_of
from studies.quadratic import A_MAX, ACTION_DIM, BATCH, EPOCHS, STATE_DIM, TRAINED, draw_points
from studies.shops import SHOP, ShopChanges, read_shop
from zoosim.core.checks import check_whole
from zoosim.core.rng import stream
from zoosim.core.types import Context, FloatArray, PolicySpec, Progress
from zoosim.models.actor import Actor
from zoosim.models.ensemble_gradient import gradient
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.optimizers import CEMConfig, cem_optimize, cem_optimize_many
from zoosim.optimizers.gradient import GradientConfig, gradient_ascent, gradient_ascent_many
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.boosts.item_critic import ItemCritic
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor
from zoosim.policies.templates.bandits import TemplateLinUCB
from zoosim.worlds.search.boosts import context_of, feedback_of
from zoosim.worlds.search.shop import SearchShop

LIMIT = 50.0
"""Milliseconds that a shop gives a decision."""

MANY = 256
BETA = 1.0
CALLS = {"loop over samples": 12, "default CEM": 60}
"""How often the slower ways are timed; the others as often as `calls` says."""

PRODUCTS = (1_000, 10_000)
VISITS = 120
"""How many visits the whole policies serve before they are timed: their warm-up is over, and they train."""

CLIMB = GradientConfig(n_starts=8, n_steps=10)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a decision, or of `requests` at once: the median, the 99th percentile and the shortest.

    `share` is what the actions found are worth, by the critic itself, in units of the best known; None for whole
    policies. `calls` were timed.
    """

    method: str
    requests: int
    median: float
    p99: float
    shortest: float
    calls: int
    share: float | None = None


class Loop:
    """The critic as a plain program has it: a torch module a member, asked one sample at a time."""

    def __init__(self, members: int, sizes: tuple[int, ...]) -> None:
        import torch

        self._torch, widths = torch, (STATE_DIM + ACTION_DIM, *sizes, 1)
        with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
            torch.manual_seed(0)
            layers = [[torch.nn.Linear(n, m) for n, m in pairwise(widths)] for _ in range(members)]
        self._members = [
            torch.nn.Sequential(*(part for layer in own[:-1] for part in (layer, torch.nn.ReLU())), own[-1])
            for own in layers
        ]

    def __call__(self, state: FloatArray, actions: FloatArray) -> FloatArray:
        """Return mean + beta std of actions `(n, d)`."""
        out = np.empty(len(actions))
        with self._torch.no_grad():
            for i, action in enumerate(actions):
                row = self._torch.tensor(np.concatenate([state, action]), dtype=self._torch.float32)
                told = np.array([float(member(row)) for member in self._members])
                out[i] = told.mean() + BETA * told.std()
        return out


def measure(*, calls: Any = 400, config: ShopChanges = None, progress: Progress = lambda line: None) -> list[Timing]:
    """Time every way `calls` times, 256 requests at once a tenth as often; whole policies in shops of two sizes.

    With a `config` in its shop alone. Raises `ConfigError`.
    """
    check_whole("latency: calls", calls, 1, 1_000_000)
    shops = [read_shop(None, {**SHOP, "n_products": n}) for n in PRODUCTS] if config is None else [read_shop(config)]
    with threadpool_limits(1):
        progress("training the critic and its actor")
        q, states = critic()
        actor = Actor(q.network(), A_MAX, beta=BETA, seed=0)
        actor.fit(states, n_steps=1_000)
        timings = _searches(q, actor, states[:MANY], calls, progress)
        for shop in shops:
            progress(f"whole policies, {shop.n_products:,} products")
            for kind in (QEnsemble, ItemCritic):
                timings += _served(open_shop(shop, seed=0), kind, calls)
        return [*timings, _linucb(calls)]


def critic() -> tuple[QEnsembleRegressor, FloatArray]:
    """Train 5 x [64, 64] on the quadratic; returns states `(n, 5)` as well."""
    points = draw_points(TRAINED, rng=stream(0, "latency"))
    q = QEnsembleRegressor(STATE_DIM, ACTION_DIM, QEnsembleConfig())
    q.update_batch(*points, n_epochs=EPOCHS, batch_size=BATCH)
    return q, points.states


def _searches(q: QEnsembleRegressor, actor: Actor, states: FloatArray, calls: int, progress: Progress) -> list[Timing]:
    rng, fast, one, loop = stream(0, "search"), CEMConfig.fast(), states[0], Loop(5, (64, 64))
    many = len(states)

    def slope(asked: FloatArray) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
        return partial(gradient, objective(asked))

    def objective(asked: FloatArray) -> EnsembleObjective:
        return q.objective(asked, BETA)

    ways: list[tuple[str, int, Callable[[], Any]]] = [
        ("loop over samples", 1, lambda: cem_optimize(partial(loop, one), ACTION_DIM, fast, rng=rng).action),
        ("fast CEM", 1, lambda: cem_optimize(objective(one), ACTION_DIM, fast, rng=rng).action),
        ("default CEM", 1, lambda: cem_optimize(objective(one), ACTION_DIM, rng=rng).action),
        (
            "gradient ascent",
            1,
            lambda: gradient_ascent(slope(one), ACTION_DIM, CLIMB, rng=rng).action,
        ),
        ("actor + 3 steps", 1, lambda: actor.act(one, refine=3)),
        ("actor", 1, lambda: actor.act(one)),
        ("fast CEM", many, lambda: cem_optimize_many(objective(states), many, ACTION_DIM, fast, rng=rng).actions),
        (
            *("gradient ascent", many),
            lambda: gradient_ascent_many(slope(states), many, ACTION_DIM, CLIMB, rng=rng).actions,
        ),
        ("actor + 3 steps", many, lambda: actor.act(states, refine=3)),
        ("actor", many, lambda: actor.act(states)),
    ]
    shares, timings = _shares(q, actor, states), []
    for method, requests, call in ways:
        progress(f"{method}, {requests} request{'s' * (requests > 1)}")
        times = min(calls, CALLS.get(method, calls)) if requests == 1 else max(3, calls // 10)
        timings.append(_timed(method, requests, call, times, shares.get(method)))
    return timings


def _shares(q: QEnsembleRegressor, actor: Actor, states: FloatArray) -> dict[str, float]:
    """Return what each way's actions are worth over all states, as a share of the best that thorough climbs find."""
    objective, m, rng = q.objective(states, BETA), len(states), stream(0, "shares")
    thorough = gradient_ascent_many(
        partial(gradient, objective), m, ACTION_DIM, GradientConfig(n_starts=32, n_steps=100), rng=rng
    )
    found = {
        "fast CEM": cem_optimize_many(objective, m, ACTION_DIM, CEMConfig.fast(), rng=rng).actions,
        "default CEM": cem_optimize_many(objective, m, ACTION_DIM, rng=rng).actions,
        "gradient ascent": gradient_ascent_many(partial(gradient, objective), m, ACTION_DIM, CLIMB, rng=rng).actions,
        "actor + 3 steps": actor.act(states, refine=3),
        "actor": actor.act(states),
    }
    best = float(thorough.values.mean())
    return {method: float(objective(actions[:, np.newaxis]).mean()) / best for method, actions in found.items()}


def _served(shop: SearchShop, kind: type[BoostPolicy], calls: int) -> list[Timing]:
    """Time a policy's decisions and its learning as it serves visits."""
    policy = kind(spec_of(shop, VISITS + calls), stream(0, "policy"))
    deciding, learning = [], []
    for step in range(VISITS + calls):
        visit = shop.arrive(step)
        context = context_of(shop, visit)
        began = time.perf_counter()
        action = policy.select_action(context)
        decided = time.perf_counter()
        result = shop.serve(visit, shop.rank(visit, action))
        feedback = feedback_of(shop, visit, result)
        served = time.perf_counter()
        policy.update(context, action, result.reward, feedback)
        deciding.append(decided - began)
        learning.append(time.perf_counter() - served)
    kept, products = slice(VISITS, None), f"{len(shop.world.catalogue.ids):,} products"
    return [
        _summary(f"{kind.name} decides, {products}", 1, deciding[kept]),
        _summary(f"{kind.name} learns, {products}", 1, learning[kept]),
    ]


def _linucb(calls: int) -> Timing:
    features = stream(0, "linucb").normal(size=17)
    arrays = {"product_ids": np.arange(8), "products": np.zeros((8, 0)), "available": np.ones(8, bool)}
    context = Context(user_id=0, user=features, **arrays)
    policy = TemplateLinUCB(PolicySpec(user_dim=17, product_dim=0), stream(0, "policy"))
    return _timed("LinUCB over 8 templates", 1, lambda: policy.select_action(context), calls)


def _timed(method: str, requests: int, call: Callable[[], Any], times: int, share: float | None = None) -> Timing:
    call()
    spans = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        spans.append(time.perf_counter() - began)
    return _summary(method, requests, spans, share)


def _summary(method: str, requests: int, spans: list[float], share: float | None = None) -> Timing:
    median, p99 = (1e3 * float(np.quantile(spans, level)) for level in (0.5, 0.99))
    return Timing(method, requests, median, p99, 1e3 * min(spans), len(spans), share)
