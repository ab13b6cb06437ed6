"""Q23: what 100 hostile visitors among 10,000 honest ones cost a service's shop, by policy and by way of attack.

Everything but HTTP is the service's own: visitors are encoded by its model, what is shown is drawn as it draws it, and
its learner reads the rows of its log. ZOOSIM_SEEDS, from ZOOSIM_FIRST on, ZOOSIM_POLICIES, ZOOSIM_VISITORS and, with
semicolons between them, ZOOSIM_ATTACKS set other ones; what a run found is kept in the file ZOOSIM_RESULTS, from which
another goes on.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.durations import DAY
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray, PolicySpec, frozen
from zoosim.policies.model import Catalogue, Model
from zoosim.policies.registry import find_class
from zoosim.schema.encoder import fit_encoder
from zoosim.schema.schema import FittedSchema
from zoosim.serving.events import (
    Feedback,
    Kind,
    ProductDecision,
    Row,
    Start,
    decision_key,
    feedback_key,
    pack,
    pack_floats,
    pack_whole,
    start_key,
)
from zoosim.serving.ids import user_id_of
from zoosim.serving.places import Slot
from zoosim.serving.ranker import Drawn, Units, draw
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
DAYS = 2
"""Days of the log in which all visitors come, so that a bound per day is met on two."""

VISITS_PER_TICK = 20
EXPLORATION = 0.05
NO_ATTACK, NO_BOUND = "no attack", "no attack and no bound per visitor"
LAST = 0.2
"""The share of honest visits, the last ones, over which is averaged."""


class Shop(NamedTuple):
    """A shop with a known truth: clicks follow a logistic model of country, age and a vector of tastes.

    Attributes:
        countries: What each country likes `(C, K)`.
        ages: What age, in standard deviations, changes `(K,)`.
        tastes: What a visitor's vector changes `(LENGTH, K)`.
    """

    countries: FloatArray
    ages: FloatArray
    tastes: FloatArray

    def rates(self, visitors: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Return the true probabilities that visitors click each product `(n, K)`."""
        countries = [COUNTRIES.index(visitor["country"]) for visitor in visitors]
        ages = (np.array([visitor["age"] for visitor in visitors]) - 43.0) / 15.0
        tastes = np.array([visitor["tastes"] for visitor in visitors])
        logits = self.countries[countries] + ages[:, np.newaxis] * self.ages + tastes @ self.tastes
        return np.asarray(1.0 / (1.0 + np.exp(-logits)))


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
    "one visitor in 2,000 visits": Hostile(_clicks_one, visitors=1, visits=ONE_VISITOR),
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
    first = int(os.environ.get("ZOOSIM_FIRST", FIRST))
    seeds = range(first, first + int(os.environ.get("ZOOSIM_SEEDS", SEEDS)))
    policies = os.environ.get("ZOOSIM_POLICIES", ",".join(POLICIES)).split(",")
    attacks = os.environ.get("ZOOSIM_ATTACKS", ";".join(ATTACKS)).split(";")
    unknown = [name for name in attacks if name not in ATTACKS]
    if unknown:
        sys.exit(f"ZOOSIM_ATTACKS: got {unknown[0]!r}, expected some of: {'; '.join(ATTACKS)}")
    honest = int(os.environ.get("ZOOSIM_VISITORS", HONEST))
    path = os.environ.get("ZOOSIM_RESULTS")
    report(policies, attacks, seeds, Results(honest, Path(path) if path else None))


def report(policies: list[str], attacks: list[str], seeds: range, results: "Results") -> None:
    """Print a line per policy and attack: points of oracle lost at the end, with the interval over seeds."""
    for policy in policies:
        calm = results.shares(policy, NO_ATTACK, seeds)
        cost = _points(results.shares(policy, NO_BOUND, seeds) - calm)
        print(f"Q23 {policy}: {calm.mean():.1%} of the oracle without an attack; the bound costs {cost}", flush=True)
        for attack in attacks:
            lost = calm - results.shares(policy, attack, seeds)
            print(f"Q23 {policy}, {attack}: lost {_points(lost)}", flush=True)


def _points(values: FloatArray) -> str:
    if len(values) < 2:
        return f"{100 * values.mean():.1f} points"
    mean, low, high = mean_interval(list(100 * values))
    return f"{mean:.1f} points ({low:.1f} to {high:.1f})"


class Results:
    """Shares of the oracle by policy, attack and seed, kept in a file of JSON lines so that a run can go on from it.

    After a change of the code begin with another file.
    """

    def __init__(self, honest: int, path: Path | None = None) -> None:
        self._honest = honest
        self._path = path
        self._shares: dict[tuple[str, str, int, int], float] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                policy, attack, seed, visitors, share = json.loads(line)
                self._shares[policy, attack, seed, visitors] = share

    def shares(self, policy: str, attack: str, seeds: range) -> FloatArray:
        """Return the share of the oracle that a policy reaches on each seed."""
        return np.array([self._share(policy, attack, seed) for seed in seeds])

    def _share(self, policy: str, attack: str, seed: int) -> float:
        key = (policy, attack, seed, self._honest)
        if key not in self._shares:
            rules = {"per_visitor": 0} if attack == NO_BOUND else {}
            hostile = None if attack in (NO_ATTACK, NO_BOUND) else ATTACKS[attack]
            share = share_of_oracle(policy, seed, hostile, self._honest, rules)
            self._shares[key] = share
            line = json.dumps([*key, share])
            print(f"Q23: {line}", file=sys.stderr, flush=True)
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(f"{line}\n")
        return self._shares[key]


def share_of_oracle(
    policy: str, seed: int, hostile: Hostile | None, honest: int, rules: Mapping[str, Any] | None = None
) -> float:
    """Return what the policy is worth to the last honest visitors, as a share of what the best products would be.

    That is by the probabilities from which is drawn what they see, so no luck of their own is in it. With and without
    an attack the same honest visitors come at the same times, with the same draws and the same mind to click.

    Args:
        policy: The name of the policy, which begins untrained.
        seed: Of shop and visitors.
        hostile: The attack, None for none.
        honest: How many honest visitors there are.
        rules: What differs from the rules that a service has.
    """
    shop = _shop(seed)
    service = _Service(_model(policy, seed), rules or {}, seed)
    rng = np.random.default_rng([seed, 2])
    visits = rng.permutation(np.repeat(np.arange(honest), rng.geometric(0.5, honest)))
    visitors = [_visitor(rng) for _ in range(honest)]
    rates = shop.rates(visitors)
    features = service.encoded(visitors)
    thresholds = rng.random((len(visits), PRODUCTS))
    target = int(np.argsort(rates.mean(axis=0))[PRODUCTS // 3])
    attack = _Attack(hostile, shop, service, target, honest, seed)
    first_counted = (1.0 - LAST) * len(visits)
    earned = 0.0
    for number, visitor in enumerate(visits.tolist()):
        service.pass_time(DAYS * DAY / len(visits))
        attack.come(number / len(visits))
        drawn = service.decide(features[visitor], f"visitor {visitor}", f"visit {number}")
        if thresholds[number, drawn.shown[0]] < rates[visitor, drawn.shown[0]]:
            service.earn(f"visit {number}", 1.0)
        if number >= first_counted:
            earned += float(drawn.propensities @ rates[visitor])
        if number % VISITS_PER_TICK == VISITS_PER_TICK - 1:
            service.tick()
    best = rates[visits[math.ceil(first_counted) :]].max(axis=1)
    return float(earned / best.sum())


class _Attack:
    """Hostile visitors, who come between the honest ones."""

    def __init__(
        self, hostile: Hostile | None, shop: Shop, service: "_Service", target: int, honest: int, seed: int
    ) -> None:
        """Settle who comes when; None for nobody.

        Args:
            hostile: The way to attack.
            shop, service: What is attacked.
            target: The place of the product that it is for.
            honest: How many honest visitors there are.
            seed: Of the visitors.
        """
        self._service = service
        self._target = target
        self._hostile = hostile
        self._came = 0
        self._times = np.zeros(0)
        if hostile is None:
            return
        rng = np.random.default_rng([seed, 5])
        self._visitors = honest // 100 if hostile.visitors is None else hostile.visitors
        self._times = np.sort(rng.uniform(*hostile.when, self._visitors * hostile.visits))
        posed = [_visitor(rng) for _ in self._times]
        self._rates = shop.rates(posed)
        self._features = service.encoded([hostile.disguise(visitor) for visitor in posed])

    def come(self, time: float) -> None:
        """Let those visit who come by a time, as a share of the whole."""
        while self._hostile is not None and self._came < len(self._times) and self._times[self._came] <= time:
            visit = f"hostile visit {self._came}"
            visitor_id = f"hostile {self._came % self._visitors}"
            shown = self._service.decide(self._features[self._came], visitor_id, visit).shown[0]
            self._service.earn(visit, self._hostile.reward(self._rates[self._came], shown, self._target))
            self._came += 1


def _shop(seed: int) -> Shop:
    rng = np.random.default_rng([seed, 1])
    countries = rng.normal(-1.0, 0.6, PRODUCTS) + rng.normal(0.0, 0.6, (len(COUNTRIES), PRODUCTS))
    return Shop(countries, rng.normal(0.0, 0.3, PRODUCTS), rng.normal(0.0, 0.3, (LENGTH, PRODUCTS)))


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

    def __init__(self, model: Model, rules: Mapping[str, Any], seed: int) -> None:
        self._rows: list[Row] = []
        self._model = model
        self._secret = b"secret %d" % seed
        self._time = 1.0
        self._replica = Replica(lambda digest: model, lambda seqs: {seq: self._rows[seq - 1] for seq in seqs})
        start = Start("model", Rules(**rules).model_dump_json().encode())
        self._append(Kind.START, start_key(1), pack(start))

    def encoded(self, visitors: Sequence[Mapping[str, Any]]) -> list[FloatArray]:
        """Return the features of visitors, each `(d,)`."""
        return [frozen(self._model.fitted.visitors.encode_one(visitor)) for visitor in visitors]

    def pass_time(self, microseconds: float) -> None:
        """Let time pass."""
        self._time += microseconds

    def decide(self, features: FloatArray, visitor_id: str, decision_id: str) -> Drawn:
        """Return what is shown to a visitor, and how likely each product was."""
        candidates = self._replica.champion.catalogue.everything()
        unit = Units(self._secret, decision_id)
        drawn = draw(
            self._model.policy, [Slot(features, user_id=user_id_of(visitor_id))], candidates, EXPLORATION, unit
        )
        decision = ProductDecision(
            request=b"request",
            model="model",
            state=self._replica.position,
            visitor_id=visitor_id,
            visitor=pack_floats(features),
            versions=pack_whole(candidates.versions),
            propensities=pack_floats(drawn.propensities),
            shown=drawn.shown,
            chances=drawn.chances,
            deferred=False,
        )
        self._append(Kind.DECISION, decision_key(decision_id), pack(decision))
        return drawn

    def earn(self, decision_id: str, reward: float) -> None:
        """Give feedback to a decision; what earns nothing gets none."""
        if reward:
            self._append(Kind.FEEDBACK, feedback_key(decision_id, "feedback"), pack(Feedback({"click": reward}, 0)))

    def tick(self) -> None:
        """Let the policy learn what is over."""
        self._append(Kind.TICK, None, b"")

    def _append(self, kind: Kind, key: bytes | None, body: bytes) -> None:
        self._rows.append(Row(len(self._rows) + 1, int(self._time), kind, key, body))
        self._replica.apply(self._rows[-1])
