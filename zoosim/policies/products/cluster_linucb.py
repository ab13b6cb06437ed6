"""A bandit on a sparse graph between clusters of visitors and products (Diag-LinUCB, Yi et al. 2023).

Each cluster has a short list of products, and each pair of a cluster and a product, an edge, sums of its own: A of
LinUCB is taken as diagonal, so edges learn apart from each other. Features make the graph; what is learned on its
edges says nothing about other products.

Here the policy learns the graph, too, which comes from a two-tower network of logs in the paper: clusters are the means
of the first visitors, and their lists what a linear model of the rewards scores highest, anew every `period` visits.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.limits import IDS, INPUTS, NUMBERS
from zoosim.core.parameters import parameter
from zoosim.core.state import blank, saved_length
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec
from zoosim.linear.joint import new_joint_ridge
from zoosim.policies.best_or_any import BestOrAny
from zoosim.policies.candidates import lasting
from zoosim.policies.products.two_stage_kernel import learn_rows
from zoosim.policies.requests import (
    LARGEST,
    CheckedRequest,
    check_finite,
    check_shape,
    checked_action,
    checked_candidates,
    checked_request,
    checked_reward,
)

KEPT = 4
"""Edges whose sums are kept, for each place on the lists: of products that are back on a list, most are known."""

NEAREST = 1e-30
"""Squared distance below which a visitor stands on a cluster's mean."""


class ClusterLinUCB(BestOrAny):
    """LinUCB with a diagonal A over visitors' clusters, on a list of products for each (Yi et al. 2023, Diag-LinUCB).

    A visitor is of the nearest clusters with weights w, which add up to 1. With d = 1 + sum of w^2 and b = sum of w r
    over an edge's visits, a product's bound is sum_c w_c b / d + alpha sqrt(sum_c w_c^2 / d). Products that were never
    tried in one of these clusters come first. The first `period` decisions are spread evenly over all products.
    """

    name = "cluster-linucb"
    learned: ClassVar[Mapping[str, str]] = {
        "ridge": "ridge",
        "updates": "updates",
        "graph": "graph",
        "means": "means",
        "visitors": "visitors",
        "edges": "edges",
        "sums": "sums",
        "key": "draws.key",
        "decisions": "draws.decisions",
    }
    means: Annotated[FloatArray, INPUTS]
    """The clusters' means `(n, d_u)`, and how many visitors each is of, `visitors (n,)`."""
    edges: Annotated[IntArray, IDS]
    """Clusters with products tried in them `(m, 2)`, the last one last, and sums of w^2 and w r, `sums (m, 2)`."""
    sums: Annotated[FloatArray, NUMBERS]
    clusters: int = parameter(16, low=1, high=1_000, help="clusters of visitors, at most")
    memberships: int = parameter(3, low=1, high=100, help="nearest clusters that a visitor is of")
    listed: int = parameter(50, low=1, high=1_000, help="products on the list of a cluster, at most")
    period: int = parameter(250, low=1, high=1_000_000, help="visits after which lists are made anew")
    alpha: float = parameter(0.5, low=0, high=100, help="width of bounds, in standard deviations")
    explore: float = parameter(0.01, low=0, high=1, help="share of decisions that is spread evenly over all products")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the model that makes the lists")
    discount: float = parameter(1 - 1 / 8000, low=0.9, high=1, help="weight that an observation of it keeps, a visit")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has seen nothing.

        Args:
            spec: The dimensions of its task.
            rng: The key of its draws is taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
            PolicyError: products have no features.
        """
        super().__init__(spec, rng, **params)
        if not spec.product_dim:
            raise PolicyError(f"{self.name}: lists products by their features, and they have none")
        dim = (1 + spec.user_dim) * (1 + spec.product_dim)
        self.ridge = new_joint_ridge(1, dim, self.regularization, self.discount)
        self.updates = np.zeros(1, np.int64)
        self.graph = np.zeros(dim)
        self.means = np.zeros((0, spec.user_dim))
        self.visitors = np.zeros(0, np.int64)
        self.edges = np.zeros((0, 2), np.int64)
        self.sums = np.zeros((0, 2))
        self._kept_lists: tuple[Any, ...] = (None,) * 5

    @property
    def _spread(self) -> float:
        """The share of decisions that is spread evenly now."""
        return self.explore if self._has_lists else 1.0

    @property
    def _has_lists(self) -> bool:
        return bool(self.updates[0] >= self.period)

    def _best(self, context: Context, request: CheckedRequest, explores: bool) -> int:
        """Return the listed candidate with the highest bound; or mean, which is 0 for what was never tried."""
        if not self._has_lists:
            return int(request.available.argmax())
        clusters, weights = self._memberships_of(request.user)
        lists = self._lists(context)[clusters]
        # Each candidate once, in the order of the lists, those of the nearest cluster first.
        places = lists.reshape(-1)[np.sort(np.unique(lists, return_index=True)[1])]
        ids = np.asarray(context.product_ids)[places]
        mean = np.zeros(len(places))
        variance = np.zeros(len(places))
        is_new = np.zeros(len(places), bool)
        for cluster, weight, own_list in zip(clusters, weights, lists, strict=True):
            is_of_cluster = self.edges[:, 0] == cluster
            is_edge = self.edges[is_of_cluster, 1] == ids[:, None]
            squares, rewards = (is_edge @ self.sums[is_of_cluster]).T
            is_tried = is_edge.any(axis=1)
            mean += weight * rewards / (1.0 + squares)
            variance += is_tried * weight**2 / (1.0 + squares)
            is_new |= ~is_tried & np.isin(places, own_list)
        if not explores:
            return int(places[mean.argmax()])
        return int(places[np.where(is_new, np.inf, mean + self.alpha * np.sqrt(variance)).argmax()])

    def _memberships_of(self, user: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the clusters that a visitor is of, nearest first, and with which weights: `(a,)` each."""
        distances = ((self.means - user) ** 2).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")[: self.memberships]
        # Those of fuzzy c-means with m = 2 (Bezdek 1981), which need no scale of distances.
        closeness = 1.0 / np.maximum(distances[nearest], NEAREST)
        return nearest, closeness / closeness.sum()

    def _lists(self, context: Context) -> IntArray:
        """Return the places of the candidates on each cluster's list, best first `(n, l)`; kept while nothing changes.

        They are what may be shown now: new products are on the lists at once, and those that are gone are not.
        """
        arrays = (context.product_ids, context.products, context.available, self.graph)
        *seen, kept = self._kept_lists
        if all(one is other for one, other in zip(seen, arrays, strict=True)):
            return kept  # type: ignore[no-any-return]
        _, products = checked_candidates(context, self.spec)
        available = np.flatnonzero(context.available)
        weights = self.graph.reshape(1 + self.spec.user_dim, 1 + self.spec.product_dim)[:, 1:]
        scores = (weights[0] + self.means @ weights[1:]) @ products[available].T
        lists: IntArray = available[np.argsort(-scores, axis=1, kind="stable")[:, : self.listed]]
        if all(lasting(array) is not None for array in arrays[:3]):
            self._kept_lists = (*arrays, lists)
        return lists

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn a reward on the edges of its product and its visitor's clusters, and by the features of both."""
        request = checked_request(context, self.spec)
        place = checked_action(action, len(request.available))
        features = np.asarray(context.products[place], np.float64)
        check_shape("products", features, (self.spec.product_dim,))
        check_finite("products", features)
        earned = checked_reward(reward, -LARGEST, LARGEST)
        if self._has_lists:
            self._learn_on_edges(request.user, int(context.product_ids[place]), earned)
        else:
            self._learn_clusters(request.user)
        rows = (request.user[None].copy(), features[None].copy(), np.zeros(1, np.int64), np.array([earned]))
        learn_rows(self.ridge, self.updates, *rows)
        if self.updates[0] % self.period == 0:
            self.graph = self.ridge.theta[0].copy()

    def _learn_clusters(self, user: FloatArray) -> None:
        """Move the nearest mean to that of its visitors (MacQueen 1967); the first different visitors are the means."""
        distances = ((self.means - user) ** 2).sum(axis=1)
        if len(self.means) < self.clusters and distances.all():
            self.means = np.append(self.means, user[None], axis=0)
            self.visitors = np.append(self.visitors, 1)
            return
        nearest = distances.argmin()
        self.visitors[nearest] += 1
        self.means[nearest] += (user - self.means[nearest]) / self.visitors[nearest]

    def _learn_on_edges(self, user: FloatArray, product: int, reward: float) -> None:
        """Add w^2 and w r to the sums of a product's edges, which become the last ones; the first are forgotten."""
        clusters, weights = self._memberships_of(user)
        edges = np.column_stack([clusters, np.full(len(clusters), product)])
        is_same = (self.edges == edges[:, None]).all(axis=2)
        sums = is_same @ self.sums + np.column_stack([weights**2, weights * reward])
        others = ~is_same.any(axis=0)
        self.edges = np.concatenate([self.edges[others], edges])[-self._most_edges :]
        self.sums = np.concatenate([self.sums[others], sums])[-self._most_edges :]

    @property
    def _most_edges(self) -> int:
        return KEPT * self.clusters * self.listed

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return blanks for as many clusters and edges as a state has, as far as there may be so many."""
        means = min(saved_length(saved, "means"), self.clusters)
        edges = min(saved_length(saved, "edges"), self._most_edges)
        return {
            "means": blank(np.float64, means, self.spec.user_dim),
            "visitors": blank(np.int64, means),
            "edges": blank(np.int64, edges, 2),
            "sums": blank(np.float64, edges, 2),
        }

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        edges = values["edges"]
        means = len(values["means"])
        if not means and values["updates"][0]:
            yield "means are missing, expected a cluster after a visit"
        if (values["visitors"] < 1).any():
            yield "visitors holds 0, expected a visitor of each cluster"
        if len(edges) and not 0 <= edges[:, 0].min() <= edges[:, 0].max() < means:
            yield f"edges holds a cluster that is none of the {means}"
        if len(np.unique(edges, axis=0)) < len(edges):
            yield "edges holds one twice, expected each once"
        if (values["sums"][:, 0] < 0.0).any():
            yield "sums holds a negative sum of squares"
