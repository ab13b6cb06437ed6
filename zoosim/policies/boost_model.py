"""A trained policy of boosts with all that it takes to rank a shop's search results."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.action_space import BOOSTS
from zoosim.core.checks import check_array
from zoosim.core.errors import DataError, PolicyError
from zoosim.core.limits import first_flaw
from zoosim.core.parameters import shown, unknown
from zoosim.core.rng import stream
from zoosim.core.types import Context, FloatArray, IntArray
from zoosim.policies.base import policy_name
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.boosts.simple import CutNormal
from zoosim.policies.model import Catalogue, Model
from zoosim.ranking.product_table import ProductTable
from zoosim.ranking.search_requests import SearchRequests, SearchSchema
from zoosim.schema.schema import FittedSchema
from zoosim.schema.values import text_of

TASTES = ("price_taste", "label_taste")
VISITOR = ("segment", "query_type", *TASTES)
"""Fields that may be said of a visitor."""

SEARCH = "search"
"""The key of a model's file under which stands what only models of boosts have."""


class EncodedSearch(NamedTuple):
    """A search: its candidates as `rows (n,)` of the catalogue, and all of it as policies see it."""

    rows: IntArray
    context: Context


class BoostedRanking(NamedTuple):
    """A ranking to show: ids of products, best first, the `boosts (10,)` that made it, and their `density`."""

    ranking: tuple[str, ...]
    boosts: FloatArray
    density: float


def spec_fields(schema: SearchSchema) -> dict[str, Any]:
    """Return what a `BoostSpec` says of a shop."""
    return {
        "reward": schema.reward,
        "k": schema.k,
        "n_categories": len(schema.categories),
        "n_segments": len(schema.segments),
        "n_kinds": len(schema.query_types),
        "n_tastes": schema.n_tastes,
    }


class _Exploring(BoostPolicy):
    """Boosts drawn around those that a trained policy recommends."""

    name = "exploring"
    learned: ClassVar = {"": "_inside"}

    def __init__(self, inside: BoostPolicy, spread: float, rng: np.random.Generator) -> None:
        super().__init__(inside.spec, rng)
        self._inside = inside
        self._spread = spread

    def around(self, context: Context) -> CutNormal:
        """Return the distribution of boosts at a request."""
        spec = self.spec
        return CutNormal(np.asarray(self._inside.recommend(context)), self._spread * spec.a_max, spec.a_max)

    def select_action(self, context: Context) -> FloatArray:
        return self.around(context).draw(rng=self.rng)

    def recommend(self, context: Context) -> FloatArray:
        return self._inside.recommend(context)

    def density(self, context: Context, action: Any) -> float:
        return self.around(context).density(np.asarray(action, np.float64))

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        self._inside.learn(context, action, reward, feedback)


@dataclass(kw_only=True, repr=False)
class BoostModel(Model):
    """A trained policy of boosts and the shop that it ranks for.

    It draws boosts from a normal distribution around those that the policy recommends, `spread` times a_max wide and
    cut to the box, so that every decision has a density to log.
    """

    action_space = BOOSTS

    policy: BoostPolicy
    requests: SearchRequests
    spread: float

    @classmethod
    def of(cls, policy: BoostPolicy, requests: SearchRequests, spread: float, **more: Any) -> "BoostModel":
        """Return the model of a policy that was trained on the searches of a shop."""
        catalogue = Catalogue(requests.names, np.zeros((len(requests.names), 0)))
        return cls(policy=policy, fitted=FittedSchema(), catalogue=catalogue, requests=requests, spread=spread, **more)

    def __post_init__(self) -> None:
        """Begin to draw."""
        self._rng = stream(int(self.facts.get("seed", 0)), "decide")

    def exploring(self) -> BoostPolicy:
        """Return the policy that draws around the trained one."""
        return _Exploring(self.policy, self.spread, self._rng)

    def distribution(self, context: Context) -> CutNormal:
        """Return the distribution of the boosts that `decide` draws at a request."""
        return _Exploring(self.policy, self.spread, self._rng).around(context)

    def prepare(self) -> None:
        """Load, or compile, what ranking takes, by ranking the first products of the catalogue; moves no state."""
        self.policy.prepare()
        schema = self.requests.schema
        visitor = {"segment": schema.segments[0], "query_type": next(iter(schema.query_types))}
        request = self.request(visitor, dict.fromkeys(self.requests.names[: schema.k], 0.0))
        distribution = self.distribution(request.context)
        boosts = distribution.draw(rng=np.random.default_rng(0))
        distribution.density(boosts)
        self._named(request, boosts)

    def decide(self, visitor: Mapping[str, Any], candidates: Any = None) -> BoostedRanking:  # type: ignore[override]
        """Rank the candidates of a search; the policy may explore.

        Args:
            visitor: `segment` and `query_type`, by name; and where the shop estimates them `price_taste` and
                `label_taste`, 0 when left out.
            candidates: The base ranker's score of each product that may be shown: a mapping by id, or mappings with
                `id` and `score`. The products are those of the catalogue.

        Returns:
            The ranking, the boosts that made it, and the density with which they were drawn: log all three.

        Raises:
            PolicyError: a candidate is unknown or comes twice, or what is said of the visitor is incomplete.
        """
        request = self.request(visitor, candidates)
        distribution = self.distribution(request.context)
        boosts = distribution.draw(rng=self._rng)
        return BoostedRanking(self._named(request, boosts), boosts, distribution.density(boosts))

    def recommend(self, visitor: Mapping[str, Any], candidates: Any = None) -> BoostedRanking:  # type: ignore[override]
        """Rank the candidates of a search by what seems best, without exploring; the density is infinite."""
        request = self.request(visitor, candidates)
        boosts = np.asarray(self.policy.recommend(request.context))
        return BoostedRanking(self._named(request, boosts), boosts, float("inf"))

    def propensities(self, visitor: Mapping[str, Any], candidates: Any = None) -> dict[str, float]:
        """Refuse: rankings by boosts have a density."""
        raise PolicyError(f"{policy_name(type(self.policy))}: chooses boosts, which have a density; see decide")

    def learn(  # type: ignore[override]
        self,
        visitor: Mapping[str, Any],
        candidates: Any,
        boosts: FloatArray,
        *,
        clicked: Iterable[str] = (),
        purchased: Iterable[str] = (),
    ) -> None:
        """Learn what came of a ranking that `decide` made: the ids of products that were clicked, and bought.

        Raises:
            PolicyError: as `decide`; or something was clicked that was not shown.
        """
        request = self.request(visitor, candidates)
        boosts = check_array("learn: boosts", boosts, (self.policy.spec.product_dim,))
        for name, ids in (("clicked", clicked), ("purchased", purchased)):
            if isinstance(ids, str) or not isinstance(ids, Iterable):
                raise PolicyError(f"learn: {name}: got {shown(ids)}, expected a list of products' ids")
        clicked = list(clicked)
        purchased = list(purchased)
        ranking = self.requests.ranking(request.context, boosts)
        names = [self.requests.names[row] for row in request.rows[ranking]]
        strangers = (set(clicked) | set(purchased)) - set(names)
        if strangers:
            raise PolicyError(
                f"learn: {shown(min(strangers))} was not shown with these boosts; give ids of the ranking"
            )
        clicks = np.array([name in set(clicked) for name in names], np.float64)
        purchases = np.array([name in set(purchased) for name in names], np.float64)
        self.learn_shown(request, boosts, ranking, clicks, purchases)

    def learn_shown(
        self, request: EncodedSearch, boosts: FloatArray, ranking: IntArray, clicks: FloatArray, purchases: FloatArray
    ) -> None:
        """Learn what came of a ranking by boosts.

        Args:
            request: The search.
            boosts: The boosts `(10,)`.
            ranking: What was shown, best first: indices `(k,)` into the request's candidates.
            clicks, purchases: By position `(k,)`, 0 or 1.
        """
        feedback = self.requests.feedback(request.context, ranking, clicks, purchases)
        worth = self.requests.worth[request.rows[ranking]]
        reward = float(purchases @ worth + self.requests.schema.reward.clicks * clicks.sum())
        self.policy.update(request.context, np.asarray(boosts, np.float64), reward, feedback)

    def request(self, visitor: Mapping[str, Any], candidates: Any) -> EncodedSearch:
        """Return a search as policies see it; see `decide`."""
        rows, scores = self._scored(candidates)
        strangers = [key for key in visitor if key not in VISITOR] if isinstance(visitor, Mapping) else []
        if strangers:
            raise PolicyError(unknown("visitor: unknown key", str(strangers[0]), list(VISITOR)))
        try:
            segment = self.requests.schema.number("segments", visitor.get("segment"))
            query_type = self.requests.schema.number("query_types", visitor.get("query_type"))
            tastes = np.array([float(visitor.get(name) or 0.0) for name in TASTES])
        except (AttributeError, TypeError, ValueError, DataError) as error:
            raise PolicyError(
                f"visitor: got {shown(visitor)}, expected segment, query_type and tastes: {error}"
            ) from None
        features = self.requests.features(segment, query_type, tastes, rows, scores)
        return EncodedSearch(
            rows, self.requests.context(features, rows, scores, self.requests.signs(tastes, query_type))
        )

    def _scored(self, candidates: Any) -> tuple[IntArray, FloatArray]:
        """Return rows of the catalogue and base scores of candidates; raises `PolicyError`."""
        pairs: Any = candidates.items() if isinstance(candidates, Mapping) else candidates
        try:
            if not isinstance(candidates, Mapping):
                pairs = [(candidate["id"], candidate["score"]) for candidate in candidates]
            names = [text_of(name) for name, _ in pairs]
            scores = np.array([score for _, score in pairs], np.float64)
        except (TypeError, ValueError, LookupError):
            names = []
            scores = np.zeros(0)
        if not names or len(set(names)) < len(names) or not np.isfinite(scores).all():
            expected = "a finite score for each id, {id: score} or [{'id': ..., 'score': ...}]"
            raise PolicyError(f"candidates: got {shown(candidates)}, expected {expected}")
        unknown = [name for name in names if name not in self.requests.row_of]
        if unknown:
            count = len(self.requests.names)
            raise PolicyError(
                f"candidates: got {shown(unknown[0])}, which is not in the catalogue of {count:,} products"
            )
        return np.array([self.requests.row_of[str(name)] for name in names], np.int64), scores

    def _named(self, request: EncodedSearch, boosts: FloatArray) -> tuple[str, ...]:
        ranking = self.requests.ranking(request.context, boosts)
        return tuple(self.requests.names[row] for row in request.rows[ranking])

    def check_encoding(self, log: Any) -> None:
        """Refuse a log of another shop: `DataError`."""
        if (
            log.searches is None
            or log.searches.requests.schema.model_copy(update={"k": self.requests.schema.k}) != self.requests.schema
        ):
            raise DataError(f"{log.source}: holds no searches of the shop that {self.source} was trained for")

    def header(self) -> dict[str, Any]:
        """Return what the model's file says beside the policy, as plain values."""
        schema = self.requests.schema.model_dump(mode="json")
        return {**super().header(), SEARCH: {"schema": schema, "spread": self.spread}}

    def arrays(self) -> dict[str, Any]:
        """Return what the model's file holds beside the policy, as arrays."""
        return {
            **super().arrays(),
            **{f"table {name}": column for name, column in self.requests.table._asdict().items()},
        }

    def misfit(self) -> bool:
        """Return whether policy and shop do not fit together."""
        schema = self.requests.schema
        return (self.policy.spec.user_dim, self.policy.spec.a_max) != (schema.n_features, schema.a_max)

    @classmethod
    def restored(cls, policy: Any, header: Mapping[str, Any], arrays: Mapping[str, Any], **more: Any) -> "BoostModel":
        """Return the model whose `header` and `arrays` a file holds."""
        schema = SearchSchema.model_validate(header[SEARCH]["schema"])
        table = ProductTable(**{name: arrays[f"table {name}"] for name in ProductTable._fields})
        if not isinstance(policy, BoostPolicy) or any(column.shape != (len(header["names"]),) for column in table):
            raise ValueError("its policy and its products do not fit")
        flaw = first_flaw("table", table)
        if flaw or table.category.dtype.kind != "i" or table.category.max(initial=-1) >= len(schema.categories):
            raise ValueError(flaw or f"table.category holds other numbers than 0 to {len(schema.categories) - 1}")
        requests = SearchRequests(schema, [str(name) for name in header["names"]], table)
        return cls.of(policy, requests, float(header[SEARCH]["spread"]), **more)
