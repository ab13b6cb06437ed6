"""What a kind of action supplies so that policies can be judged by a log of it; all the rest is the same for all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from zoosim.core.errors import ConfigError
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.off_policy.diagnostics import Moved, WeightFigures, error_figures
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters, Sums
from zoosim.off_policy.overlap import Overlap
from zoosim.off_policy.verdict import Limits, Verdict, judge_weighted


class Visits(Protocol):
    """A checked log: one entry a visit, of whatever kind the action is."""

    def __len__(self) -> int: ...

    @property
    def rewards(self) -> FloatArray:
        """Rewards `(n,)`, or by position `(n, L)`."""

    @property
    def earned(self) -> FloatArray:
        """What each visit earned `(n,)`."""

    @property
    def features(self) -> FloatArray:
        """What is known of the visitors `(n, d)`."""

    @property
    def user_ids(self) -> IntArray | None:
        """Which visits belong together `(n,)`."""

    @property
    def times(self) -> IntArray | None:
        """When they came `(n,)`, in microseconds since 1970."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many bad rows were left out, by reason."""

    @property
    def source(self) -> str:
        """What the log is called."""


class Bounded(NamedTuple):
    """Weights and rewards `(n,)` whose mean product is the policy's value: what intervals for any size bound."""

    weights: FloatArray
    rewards: FloatArray


class Estimated(NamedTuple):
    """An estimate by group, with its interval and the figures of the `weights` that it leans on.

    `moved` tells how it moved over the log's time, `carriers` how many rows must carry it.
    """

    sums: Sums
    weights: WeightFigures
    interval: Interval
    moved: Moved | None
    carriers: Limits


class Judgement(ABC):
    """One policy, judged by one log: terms, figures of weights and a verdict for each of its `estimators`.

    `notes` are what else there is to say of it, whichever the estimator; `known` says in words what is known of it.
    """

    known = "the probabilities of logged actions"

    def __init__(self, clusters: Clusters, estimators: Sequence[str], notes: Sequence[str] = ()) -> None:
        self.clusters, self.estimators, self.notes = clusters, tuple(estimators), tuple(notes)

    @abstractmethod
    def terms(self, estimator: str) -> Terms:
        """Return what an estimator comes to."""

    @abstractmethod
    def cut(self, estimator: str) -> Terms:
        """Return the same with the largest weights cut."""

    @abstractmethod
    def figures(self, estimator: str) -> WeightFigures:
        """Return figures of the weights that an estimator leans on."""

    @abstractmethod
    def bounded(self) -> Bounded:
        """Return what intervals that hold for any size bound; raises `ConfigError` where there is nothing such."""

    @abstractmethod
    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie."""

    def verdict(self, estimator: str, found: Estimated) -> Verdict:
        """Judge an estimate by its weights and its error."""
        errors, count = error_figures(found.sums, self.cut(estimator).value, found.moved), self.clusters.n_clusters
        return judge_weighted(found.weights, errors, found.interval, count, carriers=found.carriers)


class Kind(ABC):
    """A kind of action: the `estimators` there are, those taken by `default`, what a log counts, and how to judge."""

    estimators: ClassVar[tuple[str, ...]]
    default: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]

    @abstractmethod
    def __init__(self, log: Any, clusters: Clusters, wanted: Sequence[str], bandwidth: float | None) -> None:
        """Get ready to judge by a log; `wanted` are the estimators that were asked for, `bandwidth` that of kernels."""

    @abstractmethod
    def take(self, given: Any, progress: Progress) -> Callable[[], Judgement]:
        """Check what is to be judged, and return what judges it; raises `ConfigError`, `DataError`, `PolicyError`.

        `progress` is called with lines about how far it is.
        """


def refuse_bandwidth(bandwidth: float | None) -> None:
    """Raise `ConfigError` where a bandwidth is given for actions that need none."""
    if bandwidth is not None:
        raise ConfigError(f"bandwidth: got {bandwidth!r}, expected none; it goes with logs of boosts, lists of numbers")
