"""Read the log of a service as a `Log` of visits: what was shown, how likely that was, and what it earned."""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces import ActionSpace, find_action_space
from zoosim.core.action_space import RANKINGS
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import REQUEST, REWARD, FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.logs.sources import CandidateSources
from zoosim.policies.model import ID, product_ids
from zoosim.serving.events import Source, unpack_floats, unpack_unexpressed, without_gap
from zoosim.serving.folder import MODELS, SNAPSHOTS
from zoosim.serving.log_reader import LoggedDecision, LogReader
from zoosim.serving.projection import rows_of
from zoosim.serving.store.address import LOG, Address, find_log, open_store
from zoosim.serving.store.base import Store

BASELINE = "baseline"
"""Name that stands for a policy where the shop's own choice was shown, as an apprentice or for logging only."""


FROM_REQUEST = Source(REQUEST, "", 1.0, 0)
"""Stands for a source where the request named the candidates."""


class ServedLog(NamedTuple):
    """The decisions of a service as a `log`, and the id of each of its visits.

    `arms`, `policies` and `models` say what decided each visit: the name of the arm, that of its policy, or `BASELINE`,
    and the digest of the model that was in charge. The propensities of the log are those before the arm was drawn,
    `arm_propensities (n,)`, of a log of rankings `(n, L)`, those given the arm. `first_candidates (n,)` are the
    products that the shop would have shown at the top without the service; `delays (n,)`, how many seconds after a
    visit its last feedback came, NaN where none did.
    """

    log: Log
    decision_ids: tuple[str, ...]
    arms: tuple[str, ...]
    policies: tuple[str, ...]
    models: tuple[str, ...]
    arm_propensities: FloatArray
    first_candidates: IntArray
    delays: FloatArray


def read_served_log(source: str | os.PathLike[str] | Address, *, action_space: str | None = None) -> ServedLog:
    """Read what a service decided, up to the newest row there is; it may go on meanwhile.

    A visit is a decision whose wait for feedback is over by the time of the newest row. One that is still open is left
    out even where feedback came: with those alone that earned something early, rewards would be too high. What the
    visit earned is what the service learns from it; each reward by name is aggregated alike. What was pinned is left
    out and counted in `skipped`: it has probability 1, and would speak for whatever policy would have shown it, too.

    Args:
        source: The folder of the service, or where its log lies on a server.
        action_space: "products": what was shown at the top; "rankings": all that was shown. By default rankings where
            every decision showed equally many products, more than one, and no rule of the shop caps what a page holds;
            slots that differ are none.

    Raises:
        ConfigError: the service's log has no such action space, or `source` names none.
        DataError: the log is broken, or has no decision that is over.
        StoreError: the server of the log does not answer.
    """
    address = find_log(source)
    if address is None:
        raise ConfigError(
            f"log: got {str(source)!r}, expected the folder of a service, or redis://HOST:PORT/DB?name=LOOP"
        )
    with opened_log(address) as (store, folder):
        reader = LogReader(folder, store)
        # Up to here alone: a service that goes on could append as fast as this reads.
        newest = store.last()
        for row in without_gap(rows_of(store, until=0 if newest is None else newest.seq)):
            reader.apply(row)
    finished = reader.finished()
    _check_any(finished, reader, address.source)
    visits = [reader.visits[number] for number in finished]
    # Pages on which caps bear are as long as these let them be, and are judged by their top alone.
    # And so are those whose top may have come from all products, below which retrieved ones stand.
    are_capped = any(visit.has_page_caps or visit.source is not None for visit in visits)
    lengths = {len(visit.shown) for visit in visits}
    space = _space_of(lengths, action_space, reader.action_space, address.source, are_capped)
    visit_numbers = reader.judged(finished, space.shows_several)
    _check_any(visit_numbers, reader, address.source)
    return _Arrays(reader, visit_numbers, space).served_log(address.source)


def _check_any(visit_numbers: list[int], reader: LogReader, source: str) -> None:
    """Refuse a log without any decision to judge by: `DataError`, with why others are none."""
    if not visit_numbers:
        reasons = "".join(f"; {count:,} x {reason}" for reason, count in reader.skipped.items())
        raise DataError(f"{source}: got no decision to judge by{reasons}; serve visitors, and come again")


@contextlib.contextmanager
def opened_log(address: Address) -> Iterator[tuple[Store, Path]]:
    """Open a log to read, and the folder of its models: what a server shares goes into one that is removed again.

    A `DataError` of rows that are read meanwhile names the log.
    """
    with _naming(address), contextlib.ExitStack() as stack:
        folder = address.folder
        if address.server:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for part in (MODELS, SNAPSHOTS):
                (folder / part).mkdir()
        yield stack.enter_context(contextlib.closing(open_store(address, read_only=True))), folder


@contextlib.contextmanager
def _naming(address: Address) -> Iterator[None]:
    """Raise a `DataError` of rows as one that names the log."""
    log = address.source if address.server else str(address.folder / LOG)
    try:
        yield
    except DataError as error:
        message = str(error)
        if message.startswith(log):
            raise
        raise DataError(f"{log}: {message}") from None


def _space_of(lengths: set[int], action_space: str | None, served: str, source: str, are_capped: bool) -> ActionSpace:
    """Return the action space that was asked for, else the one that lengths of what was shown speak for.

    Args:
        lengths: How many products decisions showed.
        action_space: The name of the one that was asked for.
        served: The name of that in which the newest model decides.
        source: What the log is called.
        are_capped: Whether caps bore on pages, so that they are no rankings unless they are asked for.
    """
    in_lists = find_action_space(RANKINGS)
    are_equal = len(lengths) == 1
    if action_space is None:
        return in_lists if are_equal and lengths != {1} and not are_capped else find_action_space(served)
    if action_space not in (served, in_lists.name):
        raise ConfigError(f"{action_space}: got {source}, the log of a service, which shows {served} or rankings")
    space = find_action_space(action_space)
    if space.shows_several and not are_equal:
        got = f"decisions that show {min(lengths)} to {max(lengths)} products"
        raise ConfigError(f"rankings: got {source} with {got}, expected equally many; leave out rankings")
    return space


class _Arrays:
    """The arrays of a `Log`, made of the chosen visits of a service's log."""

    def __init__(self, reader: LogReader, chosen: list[int], space: ActionSpace) -> None:
        self._reader = reader
        self._chosen = chosen
        self._visits: list[LoggedDecision] = [reader.visits[number] for number in chosen]
        self._space = space
        self._length = len(self._visits[0].shown) if space.shows_several else 1
        self._names: dict[str, int] = {}
        self._product_of_version = [self._products_of(period) for period in range(len(reader.periods))]

    def served_log(self, source: str) -> ServedLog:
        """Return the log, and the ids of its decisions."""
        visits = self._visits
        rewards, by_name = self._rewards()
        candidates, candidate_set = self._candidates()
        names = tuple(self._names)
        log = Log(
            actions=self._shaped(self._actions()),
            propensities=self._propensities(visit.chances for visit in visits),
            rewards=self._shaped(rewards),
            candidates=candidates,
            candidate_set=candidate_set,
            features=self._features(source),
            positions=np.zeros(len(visits), np.int64),
            products=self._products(),
            user_ids=self._user_ids(),
            times=np.array([visit.time for visit in visits]),
            rewards_by_name={name: self._shaped(values) for name, values in by_name.items()},
            skipped=dict(self._reader.skipped),
            source=source,
            action_space=self._space.name,
            ids=product_ids(names),
            names=names,
            fitted=self._reader.fitted,
            candidate_sources=self._sources(),
            marginals=self._marginals(),
        )
        first = np.array([self._product_of_version[visit.period][visit.first] for visit in visits])
        delays = np.array([self._reader.delay(number) for number in self._chosen])
        decision_ids = tuple(visit.decision_id for visit in visits)
        policies = tuple(self._policy_of(visit) for visit in visits)
        models = tuple(self._reader.periods[visit.period].model for visit in visits)
        arms = tuple(visit.arm for visit in visits)
        arm_propensities = self._propensities(visit.arm_chances for visit in visits)
        return ServedLog(log, decision_ids, arms, policies, models, arm_propensities, first, delays)

    def _propensities(self, chances: Iterable[tuple[float, ...]]) -> FloatArray:
        """Return the probabilities of what was shown, in the shape of the log."""
        # A mixture of arms may exceed 1 by rounding, which a log does not take.
        return np.asarray(self._shaped(np.minimum([each[: self._length] for each in chances], 1.0)))

    def _sources(self) -> CandidateSources | None:
        """Return where the visits' candidates came from; None where all came from requests, or are all products."""
        if not self._has_sources:
            return None
        sources = [visit.source or FROM_REQUEST for visit in self._visits]
        numbers: dict[tuple[str, str], int] = {}
        source = [numbers.setdefault((each.name, each.version), len(numbers)) for each in sources]
        propensities = np.array([each.propensity for each in sources])
        return CandidateSources(tuple(numbers), np.array(source), propensities, np.array([s.products for s in sources]))

    def _marginals(self) -> FloatArray | None:
        """Return how likely what was shown was over all sources of candidates `(n,)`, as `_sources`."""
        if not self._has_sources:
            return None
        return np.minimum([visit.marginal for visit in self._visits], 1.0)

    @property
    def _has_sources(self) -> bool:
        return not self._space.shows_several and any(visit.source is not None for visit in self._visits)

    def _policy_of(self, visit: LoggedDecision) -> str:
        """Return the name of the policy that decided a visit."""
        is_online = self._reader.rules[visit.rules].mode == "online"
        return self._reader.periods[visit.period].policy if is_online else BASELINE

    def _shaped(self, values: Any) -> Any:
        """Return an array `(n, L)` of a log of rankings as it is, and of one of products as `(n,)`."""
        return values if self._space.shows_several else values[:, 0]

    def _products_of(self, number: int) -> IntArray:
        """Return the product that each version of a period is, where its rows count; new ones get the next indices."""
        period = self._reader.periods[number]
        if not self._reader.fits(period):
            return np.zeros(0, np.int64)
        return np.array([self._names.setdefault(name, len(self._names)) for name in period.names], np.int64)

    def _products(self) -> FloatArray:
        """Return the features `(K, d_p)` of the newest version of each product, the champion's where it has one."""
        reader = self._reader
        encoder = reader.fitted.products
        products = np.zeros((len(self._names), encoder.width))
        # Later ones overwrite earlier ones: the champion's come last.
        for number in sorted(range(len(reader.periods)), key=lambda each: reader.periods[each] is reader.champion):
            period = reader.periods[number]
            is_alike = reader.encodes_alike(period)
            for product, name, features in zip(
                self._product_of_version[number], period.names, period.features, strict=False
            ):
                own = features if is_alike else encoder.carry_over(period.fitted.products, features, {ID: name})
                products[product] = own
        return products

    def _actions(self) -> IntArray:
        return np.array(
            [self._product_of_version[visit.period][list(visit.shown[: self._length])] for visit in self._visits]
        )

    def _features(self, source: str) -> FloatArray:
        """Return the visitors' features `(n, d_u)` by the newest schema."""
        encoder = self._reader.fitted.visitors
        features = np.empty((len(self._visits), encoder.width))
        is_alike = [self._reader.encodes_alike(period) for period in self._reader.periods]
        for place, visit in enumerate(self._visits):
            before = self._reader.periods[visit.period].fitted.visitors
            if len(visit.visitor) != 8 * before.width:
                lacking = f"holds visitors without the {before.width} features of their model"
                raise DataError(f"{source}: {lacking}; restore a backup")
            own = unpack_floats(visit.visitor)
            if not is_alike[visit.period]:
                own = encoder.carry_over(before, own, unpack_unexpressed(visit.unexpressed).visitor_in(0))
            features[place] = own
        return features

    def _user_ids(self) -> IntArray | None:
        """Return numbers of visitors in the order in which they came, an own one where none is named."""
        if not any(visit.visitor_id for visit in self._visits):
            return None
        numbers: dict[Any, int] = {}
        keys = (visit.visitor_id or (place,) for place, visit in enumerate(self._visits))
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys])

    def _candidates(self) -> tuple[CandidateSets, IntArray]:
        """Return the different sets of candidates of the visits, and which of them each had."""
        set_numbers, candidate_set = np.unique([visit.candidates for visit in self._visits], return_inverse=True)
        lists = []
        for number in set_numbers:
            period, versions = self._reader.sets[number]
            lists.append(self._product_of_version[period][np.frombuffer(versions, "<u4")].astype(np.int32))
        starts = np.concatenate([[0], np.cumsum([len(products) for products in lists])])
        sets = CandidateSets(starts, np.concatenate(lists), len(self._names))
        return sets, candidate_set.reshape(-1)

    def _rewards(self) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Return what each slot earned `(n, L)`, and the same of each reward by name."""
        weights = self._reader.fitted.weights
        names = [] if list(weights) == [REWARD] else list(weights)
        weighted = [name for name, weight in weights.items() if weight]
        rewards = np.empty((len(self._visits), self._length))
        by_name = {name: np.zeros(rewards.shape) for name in names}
        for place, (number, visit) in enumerate(zip(self._chosen, self._visits, strict=True)):
            default = self._reader.rules[visit.rules].default_reward
            rewards[place] = default
            if len(weighted) == 1 and names:  # the objective is this reward, so what it is by default is known
                by_name[weighted[0]][place] = default / weights[weighted[0]]
            for slot, (reward, each) in self._reader.earned(number).items():
                if slot < self._length:
                    rewards[place, slot] = reward
                    for name in names:
                        by_name[name][place, slot] = each[name]
        return rewards, by_name
