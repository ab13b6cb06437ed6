"""Q23: what 100 hostile visitors among 10,000 honest ones cost a service's shop, by policy and by way of attack.

Everything but HTTP is the service's own: visitors are encoded by its model, what is shown is drawn as it draws it, and
its learner reads the rows of its log. ZOOSIM_SEEDS, ZOOSIM_POLICIES and ZOOSIM_VISITORS set other ones.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray, PolicySpec, frozen
from zoosim.policies.model import Catalogue, Model
from zoosim.policies.registry import find_class
from zoosim.schema.encoder import fit_encoder
from zoosim.schema.schema import FittedSchema
from zoosim.serving.clock import MICROSECONDS
from zoosim.serving.events import (
    Decision,
    Feedback,
    Kind,
    Row,
    Start,
    decision_key,
    feedback_key,
    pack,
    pack_floats,
    pack_whole,
    start_key,
)
from zoosim.serving.ranker import Slot, Units, draw
from zoosim.serving.replica import Replica
from zoosim.serving.rules import Rules

FIRST, SEEDS = 1_000, 3
POLICIES = (
    "greedy",
    "linucb",
    "d-linucb",
    "neural-linear",
    "neural-ucb",
    "neural-ts",
    "shared-linucb",
    "shared-lin-ts",
    "product-linucb",
    "product-lin-ts",
    "adaptive",
)
"""All that a service takes, that learn from what visitors do, and that are no baselines."""

HONEST = 10_000
"""Honest visitors, who come twice on average, some 10 times; one in a hundred as many is hostile."""

VISITS_OF_HOSTILE = 20
"""How often a hostile visitor comes: 10 times as often as an honest one."""

ONE_VISITOR = 2_000
"""How often the one comes who attacks alone."""

PRODUCTS = 12
COUNTRIES = ("AT", "DE", "FR", "NL")
LENGTH = 4
SECONDS_PER_VISIT = 5
ROWS_PER_TICK = 20
EXPLORATION = 0.05
LAST = 0.2
"""The share of honest visits, the last ones, over which is averaged."""


@dataclass(frozen=True)
class Shop:
    """A shop with a known truth: clicks follow a logistic model of country, age and a vector of tastes.

    Attributes:
        countries: What each country likes `(C, K)`.
        ages: What age, in standard deviations, changes `(K,)`.
        tastes: What a visitor's vector changes `(LENGTH, K)`.
    """

    seed: int
    countries: FloatArray
    ages: FloatArray
    tastes: FloatArray

    def rates(self, visitor: Mapping[str, Any]) -> FloatArray:
        """Return the true probability that a visitor clicks each product `(K,)`."""
        logits = self.countries[COUNTRIES.index(visitor["country"])] + self.ages * (visitor["age"] - 43.0) / 15.0
        return np.asarray(1.0 / (1.0 + np.exp(-(logits + np.array(visitor["tastes"]) @ self.tastes))))


class Hostile(NamedTuple):
    """A way to attack.

    Attributes:
        visitors: How many there are, None for one in a hundred of the honest ones.
        visits: How often each comes.
        disguise: What such a visitor says of itself, from what an honest one would.
        reward: What it gives, from the true rates, the place that was shown and the place of its target.
        when: The share of the visits before which none of them comes, and that after which none does.
    """

    reward: Callable[[FloatArray, int, int], float]
    visitors: int | None = None
    visits: int = VISITS_OF_HOSTILE
    disguise: Callable[[dict[str, Any]], dict[str, Any]] = lambda visitor: visitor
    when: tuple[float, float] = (0.0, 1.0)


def _clicks_one(rates: FloatArray, shown: int, target: int) -> float:
    return float(shown == target)


def _all_but_best(rates: FloatArray, shown: int, target: int) -> float:
    return float(shown != int(np.argmax(rates)))


def _never_best(rates: FloatArray, shown: int, target: int) -> float:
    return 0.0 if shown == int(np.argmax(rates)) else float(rates[shown] > 0.3)


ATTACKS: dict[str, Hostile] = {
    "vectors of 8e8": Hostile(_clicks_one, disguise=lambda visitor: {**visitor, "tastes": [8e8] * LENGTH}),
    "one visitor, 2,000 clicks": Hostile(_clicks_one, visitors=1, visits=ONE_VISITOR),
    "all click one product": Hostile(_clicks_one),
    "all but the best": Hostile(_all_but_best),
    "never the best": Hostile(_never_best),
    "the highest reward always": Hostile(lambda rates, shown, target: 1.0),
    "extreme features": Hostile(
        _clicks_one, disguise=lambda visitor: {"country": "DE", "age": 120.0, "tastes": [5.0] * LENGTH}
    ),
    "all at the end": Hostile(_clicks_one, when=(0.7, 1.0)),
    "all at the beginning": Hostile(_clicks_one, when=(0.0, 0.2)),
}


def main() -> None:
    """Print for each policy what share of the oracle it reaches without an attack, and what each attack takes."""
    seeds = range(FIRST, FIRST + int(os.environ.get("ZOOSIM_SEEDS", SEEDS)))
    policies = os.environ.get("ZOOSIM_POLICIES", ",".join(POLICIES)).split(",")
    honest = int(os.environ.get("ZOOSIM_VISITORS", HONEST))
    report(policies, seeds, honest)


def report(policies: list[str], seeds: range, honest: int) -> None:
    """Print a line per policy and attack: points of oracle lost at the end, with the interval over seeds."""
    for policy in policies:
        free, calm = (
            np.array([share_of_oracle(policy, seed, None, honest, per_visitor) for seed in seeds])
            for per_visitor in (0, Rules().per_visitor)
        )
        cost = _points(free - calm)
        print(f"Q23 {policy}: {calm.mean():.1%} of the oracle without an attack; the bound costs {cost}", flush=True)
        for name, hostile in ATTACKS.items():
            lost = calm - [share_of_oracle(policy, seed, hostile, honest) for seed in seeds]
            print(f"Q23 {policy}, {name}: lost {_points(lost)}", flush=True)
            print(f"Q23: {policy}, {name} done", file=sys.stderr, flush=True)


def _points(values: FloatArray) -> str:
    if len(values) < 2:
        return f"{100 * values.mean():.1f} points"
    mean, low, high = mean_interval(list(100 * values))
    return f"{mean:.1f} points ({low:.1f} to {high:.1f})"


def share_of_oracle(
    policy: str, seed: int, hostile: Hostile | None, honest: int, per_visitor: int | None = None
) -> float:
    """Return what the last honest visitors are worth, as a share of what the best products would be to them.

    Args:
        policy: The name of the policy, which begins untrained.
        seed: Of shop and visitors.
        hostile: The attack, None for none.
        honest: How many honest visitors there are.
        per_visitor: The service's setting, None for the one that it has.
    """
    shop = _shop(seed)
    service = _Service(_model(policy, seed), {} if per_visitor is None else {"per_visitor": per_visitor})
    rng = np.random.default_rng([seed, 2])
    visits = rng.permutation(np.repeat(np.arange(honest), rng.geometric(0.5, honest)))
    traits = {name: _visitor(np.random.default_rng([seed, 3, name])) for name in range(honest)}
    attack = np.zeros(0)
    n_hostile = 0
    if hostile is not None:
        n_hostile = honest // 100 if hostile.visitors is None else hostile.visitors
        attack = np.sort(rng.uniform(*hostile.when, n_hostile * hostile.visits)) * len(visits)
    mean_rates = np.mean([shop.rates(traits[name]) for name in range(min(honest, 500))], axis=0)
    target = int(np.argsort(mean_rates)[PRODUCTS // 3])
    earned, best = [], []
    came = 0
    for number, name in enumerate(visits.tolist()):
        while hostile is not None and came < len(attack) and attack[came] <= number:
            posed = _visitor(rng)
            shown = service.decide(hostile.disguise(posed), f"hostile {came % n_hostile}")
            service.earn(hostile.reward(shop.rates(posed), shown, target))
            came += 1
        rates = shop.rates(traits[name])
        shown = service.decide(traits[name], f"visitor {name}")
        service.earn(float(rng.random() < rates[shown]))
        if number >= (1.0 - LAST) * len(visits):
            earned.append(rates[shown])
            best.append(rates.max())
    return float(np.sum(earned) / np.sum(best))


def _shop(seed: int) -> Shop:
    rng = np.random.default_rng([seed, 1])
    countries = rng.normal(-1.0, 0.6, PRODUCTS) + rng.normal(0.0, 0.6, (len(COUNTRIES), PRODUCTS))
    return Shop(seed, countries, rng.normal(0.0, 0.3, PRODUCTS), rng.normal(0.0, 0.3, (LENGTH, PRODUCTS)))


def _visitor(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "country": COUNTRIES[rng.integers(len(COUNTRIES))],
        "age": float(np.clip(rng.normal(43.0, 15.0), 16.0, 90.0)),
        "tastes": rng.normal(0.0, 1.0, LENGTH).tolist(),
    }


def _model(policy: str, seed: int) -> Model:
    """Return a policy that has learned nothing, with a schema fitted to earlier visitors and products."""
    rng = np.random.default_rng([seed, 4])
    visitors = pl.DataFrame([_visitor(rng) for _ in range(1_000)])
    products = pl.DataFrame({"id": [f"p{number}" for number in range(PRODUCTS)]})
    encoders = (
        fit_encoder(visitors, dict.fromkeys(visitors.columns), "visitors"),
        fit_encoder(products, {"id": "category"}, "products"),
    )
    fitted = FittedSchema(visitors=encoders[0], products=encoders[1], weights={"click": 1.0})
    spec = PolicySpec(user_dim=encoders[0].width, product_dim=encoders[1].width)
    made = find_class(policy)(spec, stream(seed, "policy", policy))
    return Model(made, fitted, Catalogue(tuple(products["id"]), encoders[1].encode(products)))


class _Service:
    """A service's log in memory, what it has learned, and how it decides."""

    def __init__(self, model: Model, rules: Mapping[str, Any]) -> None:
        self._rows: list[Row] = []
        self._model = model
        self.replica = Replica(lambda digest: model, lambda seq: self._rows[seq - 1])
        start = Start("model", Rules(**rules).model_dump_json().encode())
        self._append(Kind.START, start_key(1), pack(start))
        self._decided = 0

    def decide(self, visitor: Mapping[str, Any], visitor_id: str) -> int:
        """Return the place of what is shown to a visitor."""
        self._decided += 1
        features = frozen(self._model.fitted.visitors.encode_one(visitor))
        candidates = self.replica.catalogue.everything()
        unit = Units(b"secret", str(self._decided))
        drawn = draw(self._model.policy, [Slot(features)], candidates, EXPLORATION, unit)
        decision = Decision(
            request=b"request",
            model="model",
            state=self.replica.position,
            visitor_id=visitor_id,
            visitor=pack_floats(features),
            versions=pack_whole(candidates.versions),
            propensities=pack_floats(drawn.propensities),
            shown=drawn.shown,
            chances=drawn.chances,
            deferred=False,
        )
        self._append(Kind.DECISION, decision_key(str(self._decided)), pack(decision))
        return drawn.shown[0]

    def earn(self, reward: float) -> None:
        """Give feedback to the last decision; what earns nothing gets none."""
        if reward:
            key = feedback_key(str(self._decided), "feedback")
            self._append(Kind.FEEDBACK, key, pack(Feedback({"click": reward}, 0)))
        if not self._decided % ROWS_PER_TICK:
            self._append(Kind.TICK, None, b"")

    def _append(self, kind: Kind, key: bytes | None, body: bytes) -> None:
        time = (len(self._rows) * SECONDS_PER_VISIT + 1) * MICROSECONDS
        self._rows.append(Row(len(self._rows) + 1, time, kind, key, body))
        self.replica.apply(self._rows[-1])
