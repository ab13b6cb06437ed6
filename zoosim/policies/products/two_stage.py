"""Retrieve candidates among millions by the ranker's own posterior, then rank them by draws from it.

Under a linear model over [1, user] (x) [1, product] a visitor sees products by one vector: the score of each is an
inner product with it. So the products that the ranker itself takes for best are found by a search, and what it learns
moves the query, never the index. A retriever that does not learn cannot be healed by a ranker that does (Hron, Krauth,
Jordan & Kilbertus 2021).

Probabilities are exact: candidates follow from the request and the posterior without chance, and a share of the
decisions, which is settled first, is spread evenly over all products.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import parameter, shown
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import (
    POOL,
    CandidateSource,
    Context,
    Distribution,
    FloatArray,
    IntArray,
    PastLog,
    PolicySpec,
    Progress,
    Retrieval,
    RetrievedDecision,
    frozen,
)
from zoosim.linear.joint import new_joint_ridge
from zoosim.policies.base import FIT_CHUNK
from zoosim.policies.choice import DRAWS, draw_number, posterior_key
from zoosim.policies.kernel import new_draws
from zoosim.policies.products.catalogue_index import CatalogueIndex, some_of
from zoosim.policies.products.two_stage_kernel import View, best_by_draw, draw_deviations, learn_rows, look
from zoosim.policies.requests import (
    LARGEST,
    check_finite,
    check_shape,
    checked_action,
    checked_past_features,
    checked_request,
    checked_reward,
)
from zoosim.policies.retrieving import RetrievingPolicy
from zoosim.retrieval import Index

PAIRS = DRAWS // 2
"""Draws n and n + `PAIRS` lie on either side of the posterior's mean."""


class TwoStage(RetrievingPolicy):
    """Linear Thompson sampling on one model for all products, over the candidates that its posterior retrieves.

    By `mean` the candidates are the products that the posterior's mean scores highest, and one of 256 numbered draws
    ranks them. By `draws` each draw retrieves its own best product: Thompson sampling over the whole catalogue, whose
    probabilities take 256 searches.

    What is retrieved from is what requests offer, or an index that `use_index` sets, and then requests need no
    products: `decide` answers with a product's id. The posterior is saved with the policy; an index has files of its
    own.
    """

    name = "two-stage"
    learned: ClassVar[tuple[str, ...]] = ("ridge", "key", "updates", "draws")
    candidates: int = parameter(500, low=1, high=100_000, help="products that are retrieved, by the posterior's mean")
    retrieval: str = parameter(
        "mean",
        choices=("mean", "draws"),
        help="what retrieves: the posterior's mean, many products; or each draw, its own best",
    )
    explore: float = parameter(0.01, low=0, high=1, help="share of decisions that is spread evenly over all products")
    alpha: float = parameter(0.1, low=0, high=100, help="width of draws, in standard deviations")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")
    discount: float = parameter(1 - 1 / 8000, low=0.9, high=1, help="weight that an observation keeps, a visit")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing and knows no products.

        Args:
            spec: The dimensions of its task.
            rng: The keys of its draws are taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
            PolicyError: products have no features.
        """
        super().__init__(spec, rng, **params)
        if not spec.product_dim:
            raise PolicyError(f"{self.name}: retrieves by the features of products, and they have none")
        dim = (1 + spec.user_dim) * (1 + spec.product_dim)
        self.ridge = new_joint_ridge(1, dim, self.regularization, self.discount)
        self.key = np.array([draw_key(rng)])
        self.updates = np.zeros(1, np.int64)
        self.draws = new_draws(rng)
        self._catalogue = CatalogueIndex()

    @property
    def index(self) -> Index | None:
        """The index that requests without products are about; None where none was given."""
        return self._catalogue.given

    def use_index(self, index: Index) -> None:
        """Retrieve from an index of products' features, where requests bring no products.

        Requests that bring products are answered among these, and leave the index as it is.

        Raises:
            PolicyError: its vectors have another width than products' features.
        """
        if index.width != self.spec.product_dim:
            raise PolicyError(
                f"use_index: got an index of vectors of {index.width}, expected {self.spec.product_dim}, the features "
                "of a product"
            )
        self._catalogue.use(index)

    def select_action(self, context: Context) -> int:
        """Draw a product of the request, without the probabilities of the others."""
        user = self._follow(context)
        product_id = self._draw_product(user, self._next_draw())
        self.draws.decisions[0] += 1
        return self._catalogue.place_of(product_id)

    def retrieve(self, context: Context) -> Retrieval:
        """Return the candidates of a request and the shares of draws that rank each first; moves no state."""
        ids, best = self._best_by_draw(self._follow(context), context.get("count", 1))
        chances = np.bincount(best, minlength=len(ids)) / DRAWS
        return Retrieval(ids, chances, f"posterior-{self.retrieval}", self._version, self.explore)

    def decide(self, context: Context, draw: float | None = None) -> RetrievedDecision:
        """Draw a product with all that a log has to say of it; the context may be without products.

        Args:
            context: The request: `user`, and `product_ids`, `products` and `available` where it brings them.
            draw: A number in [0, 1) that settles the draw, such as a hash of an event's id. Default: the policy's next.

        Raises:
            PolicyError: the request or the draw is none, or there are no products.
        """
        if draw is not None and not 0.0 <= draw < 1.0:
            raise PolicyError(f"draw: got {shown(draw)}, expected a number from 0 up to, but not including, 1")
        user = self._follow(context)
        settled = self._next_draw() if draw is None else draw
        self.draws.decisions[0] += draw is None
        ids, best = self._best_by_draw(user)
        chances = np.bincount(best, minlength=len(ids)) / DRAWS
        n_allowed = len(self._catalogue.allowed_ids)
        if settled < self.explore:
            product_id = self._pool_product(settled)
            marginal = (1.0 - self.explore) * float(chances[ids == product_id].sum()) + self.explore / n_allowed
            source = CandidateSource(POOL, self._catalogue.version, self.explore / n_allowed, n_allowed)
            return RetrievedDecision(product_id, np.array([product_id]), np.ones(1), source, marginal)
        place = best[self._number_of(settled)]
        marginal = (1.0 - self.explore) * float(chances[place]) + self.explore / n_allowed
        source = CandidateSource(f"posterior-{self.retrieval}", self._version, 1.0 - self.explore, n_allowed)
        return RetrievedDecision(int(ids[place]), ids, chances, source, marginal)

    def propensities(self, context: Context) -> Distribution:
        """Return the probabilities that `select_action` draws from; moves no state."""
        ids, best = self._best_by_draw(self._follow(context))
        chances = np.bincount(best, minlength=len(ids)) / DRAWS
        return Distribution(ids, (1.0 - self.explore) * chances, self.explore)

    def recommend(self, context: Context) -> int:
        """Return the place of the product that the posterior's mean takes for best; moves no state."""
        view = look(self.ridge, self._follow(context))
        return self._catalogue.place_of(self._best_of_all(view.mean))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn the reward of a product of the request; its features are the request's."""
        request = checked_request(context, self.spec)
        place = checked_action(action, len(request.available))
        features = np.asarray(context.products[place], np.float64)
        self._learn(request.user, features, reward)

    def learn(self, context: Context, product_id: int, reward: float) -> None:
        """Learn the reward of a product of the index, where the request brings no products.

        Raises:
            PolicyError: the request or the reward is none.
            DataError: the index holds no such product.
        """
        user = self._follow(context)  # before the index is asked: the last request may have brought products
        features = self._catalogue.index.vectors(np.array([product_id]))[0].astype(np.float64)
        self._learn(user, features, reward)

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn the rewards of a log, one after another."""
        users = checked_past_features(log, self.spec)
        products = np.ascontiguousarray(log.products, np.float64)
        for reward in (log.rewards.min(), log.rewards.max()) if len(log) else ():
            checked_reward(float(reward), -LARGEST, LARGEST)
        for start in range(0, len(log), FIT_CHUNK):
            part = slice(start, min(start + FIT_CHUNK, len(log)))
            rows = (users[part].copy(), products, np.array(log.actions[part]), np.array(log.rewards[part], np.float64))
            self._learn_rows(*rows)
            progress(f"learned from {part.stop:,} of {len(log):,} visits")
        return {}

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on, from the posterior, too; what was learned stays."""
        super().reseed(rng)
        self.key[:] = draw_key(rng)
        self.draws = new_draws(rng)

    def prepare(self) -> None:
        """Compile all that a request and a reward need, by playing one on another policy of the same task."""
        other = type(self)(self.spec, np.random.default_rng(0))
        context = Context(
            user_id=0,
            user=frozen(np.zeros(self.spec.user_dim)),
            product_ids=frozen(np.arange(2)),
            products=frozen(np.eye(2, self.spec.product_dim)),
            available=frozen(np.ones(2, bool)),
        )
        other.decide(context)
        other.update(context, other.select_action(context), 0.0)

    @property
    def _version(self) -> str:
        """Names what was searched, and what the retriever had learned."""
        return f"{self._catalogue.version}.{self._retriever_version}"

    @property
    def _retriever_version(self) -> int:
        """How many rewards the posterior knows that retrieves."""
        return int(self.updates[0])

    def _retriever_mean(self, user: FloatArray, view: View) -> FloatArray:
        """Return the query of the retrieval by the mean `(d_p,)`."""
        return view.mean

    def _follow(self, context: Context) -> FloatArray:
        """Hold the products of a request, and return its visitor's features."""
        user = checked_request(context, self.spec).user if "product_ids" in context else self._checked_user(context)
        if "products" in context:
            check_shape("products", np.asarray(context.products), (len(context.product_ids), self.spec.product_dim))
        self._catalogue.follow(context)
        return user

    def _checked_user(self, context: Context) -> FloatArray:
        user = np.array(context.user, np.float64)
        check_shape("user", user, (self.spec.user_dim,))
        check_finite("user", user)
        return frozen(user)

    def _learn(self, user: FloatArray, features: FloatArray, reward: float) -> None:
        check_shape("products", features, (self.spec.product_dim,))
        check_finite("products", features)
        earned = checked_reward(reward, -LARGEST, LARGEST)
        rows = (user[None].copy(), features[None].copy(), np.zeros(1, np.int64), np.array([earned]))
        self._learn_rows(*rows)

    def _learn_rows(self, users: FloatArray, products: FloatArray, actions: IntArray, rewards: FloatArray) -> None:
        learn_rows(self.ridge, self.updates, users, products, actions, rewards)

    def _next_draw(self) -> float:
        return uniform(self.draws.key[0], int(self.draws.decisions[0]) + 1, 0)

    def _draw_product(self, user: FloatArray, draw: float) -> int:
        """Return the product that a `draw` in [0, 1) settles; moves nothing."""
        if draw < self.explore:
            return self._pool_product(draw)
        view = look(self.ridge, user)
        half, pair = divmod(self._number_of(draw), PAIRS)
        deviations = self._deviations(view, pair, 1)
        if self.retrieval == "draws":
            return self._best_of_all(both_draws(view.mean, deviations)[half])
        ids, vectors = self._retrieve(user, view)
        return int(ids[best_by_draw(view.mean, deviations, vectors)[half]])

    # One draw settles both stages: either part of [0, 1), below `explore` and above, is stretched to the whole of it.
    def _pool_product(self, draw: float) -> int:
        ids = self._catalogue.allowed_ids
        return int(ids[int(draw / self.explore * len(ids))])

    def _number_of(self, draw: float) -> int:
        return draw_number((draw - self.explore) / (1.0 - self.explore))

    def _best_by_draw(self, user: FloatArray, count: int = 1) -> tuple[IntArray, IntArray]:
        """Return the candidates of a visitor, ids `(c,)`, and the place of the best of them by each draw `(256,)`.

        There are at least `count` of them where so many products may be shown.
        """
        view = look(self.ridge, user)
        deviations = self._deviations(view, 0, PAIRS)
        if self.retrieval == "draws":
            weights = both_draws(view.mean, deviations)
            matches = self._catalogue.index.search(weights, 1, self._catalogue.allowed)
            ids, best = np.unique(some_of(matches.ids[:, 0]), return_inverse=True)
            if len(ids) < count:
                further, _ = self._catalogue.index.retrieve(view.mean, count, self._catalogue.allowed)
                ids = np.append(ids, further[np.isin(further, ids, invert=True)][: count - len(ids)])
            return ids, best.reshape(-1)
        ids, vectors = self._retrieve(user, view, count)
        return ids, best_by_draw(view.mean, deviations, vectors)

    def _deviations(self, view: View, first: int, count: int) -> FloatArray:
        key = np.uint64(posterior_key(self.key, self.updates))
        return draw_deviations(view, self.alpha, key, first, count)

    def _retrieve(self, user: FloatArray, view: View, count: int = 1) -> tuple[IntArray, np.ndarray]:
        """Return ids and vectors of the candidates, those that the mean scores highest first: `(c,)`, `(c, d_p)`."""
        query = self._retriever_mean(user, view)
        wanted = max(self.candidates, count)
        ids, vectors = self._catalogue.index.retrieve(query, wanted, self._catalogue.allowed)
        return some_of(ids), vectors

    def _best_of_all(self, query: FloatArray) -> int:
        """Return the id of the product that may be shown with the largest inner product."""
        return int(some_of(self._catalogue.index.search(query, 1, self._catalogue.allowed).ids[0])[0])


def both_draws(mean: FloatArray, deviations: FloatArray) -> FloatArray:
    """Return the weights of products by the draws of some pairs `(2 count, d_p)`, all on one side first."""
    return np.concatenate([mean + deviations.T, mean - deviations.T])


class FixedRetriever(TwoStage):
    """The two stages with a retriever that learns from its first visits alone, as one that is trained offline, once.

    The ranker goes on learning, and cannot show what the retriever does not find.
    """

    name = "two-stage-fixed"
    learned = (*TwoStage.learned, "retriever")
    trained_on: int = parameter(1_000, low=1, high=1_000_000_000, help="rewards that the retriever learns from")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing and knows no products.

        Args:
            spec: The dimensions of its task.
            rng: The keys of its draws are taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
            PolicyError: products have no features, or each draw retrieves for itself.
        """
        super().__init__(spec, rng, **params)
        if self.retrieval == "draws":
            raise PolicyError(f"{self.name}.retrieval: got draws, which are those of the ranker; expected mean")
        self.retriever = self.ridge.theta[0].copy()

    @property
    def _retriever_version(self) -> int:
        return min(int(self.updates[0]), self.trained_on)

    def _retriever_mean(self, user: FloatArray, view: View) -> FloatArray:
        weights = self.retriever.reshape(1 + self.spec.user_dim, 1 + self.spec.product_dim)
        return np.asarray(weights[0, 1:] + user @ weights[1:, 1:])

    def _learn_rows(self, users: FloatArray, products: FloatArray, actions: IntArray, rewards: FloatArray) -> None:
        first = max(0, self.trained_on - int(self.updates[0]))
        super()._learn_rows(users[:first], products, actions[:first], rewards[:first])
        if first:
            self.retriever[:] = self.ridge.theta[0]
        super()._learn_rows(users[first:], products, actions[first:], rewards[first:])
