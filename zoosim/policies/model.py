"""A trained policy with all that it takes to use it: its schema, its products, and what it was trained on; in a file.

A model decides for a visitor and candidates as a shop has them: values by column, and products by their ids.
"""

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.action_space import BOOSTS, PRODUCTS
from zoosim.core.blame import blamed
from zoosim.core.digests import content_digest
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.files import checked_file
from zoosim.core.packed import Packing, packed_content, packed_digest, read_packed, write_packed
from zoosim.core.parameters import shown
from zoosim.core.tabular import TabularResult
from zoosim.core.types import NOBODY, Context, FloatArray, IntArray, frozen
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.persistence import class_of_saved, packed_policy, unpacked_policy
from zoosim.policies.requests import dense_propensities
from zoosim.schema.schema import FittedSchema
from zoosim.schema.values import product_key, text_of

if TYPE_CHECKING:
    from zoosim.core.tables import Table

SUFFIX = ".zoosim"
PACKING = Packing(b"zoosim model 1\n", "model", "train it anew (zoosim train)", "zoosim train writes models")

DIGEST_CHARACTERS = 32
"""Of the SHA-256 of a model's file, by which logs and forecasts name it."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ID = "id"
"""The key of a candidate's id, where a candidate is given with its features."""


def product_ids(names: Sequence[str]) -> IntArray:
    """Return the numbers by which policies know products `(K,)`, read-only."""
    return frozen(np.array([product_key(name) for name in names], np.int64))


class ProductChoice(NamedTuple):
    """A product to show: a product by its id, the probability with which it was drawn, and that of each candidate."""

    product: str
    propensity: float
    propensities: dict[str, float]


@dataclass(frozen=True)
class Catalogue:
    """The products of a log: what the shop calls them, and their features `(K, d_p)`."""

    names: tuple[str, ...]
    features: FloatArray

    def __post_init__(self) -> None:
        """Refuse products that are not told apart, and features that are no finite numbers."""
        if len(self.names) != len(self.features) or len(set(self.names)) < len(self.names):
            raise DataError(
                f"catalogue: got {len(self.names):,} names, {len(set(self.names)):,} of them different, and features "
                f"of {len(self.features):,} products, expected one name for each"
            )
        if not np.isfinite(self.features).all():
            raise DataError("catalogue: got features that are missing or infinite, expected finite numbers")
        # A copy that nobody can change, so that policies know it again without looking at its values.
        object.__setattr__(self, "features", frozen(np.array(self.features, np.float64)))

    # What takes seconds of a million products is made when it is first asked for: who checks a file asks for neither.
    @cached_property
    def ids(self) -> IntArray:
        """The numbers by which policies know the products `(K,)`, read-only."""
        return product_ids(self.names)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def place(self, name: str) -> int | None:
        """Return where a product stands, None for one that is not in the catalogue."""
        return self._places.get(name)


@dataclass(repr=False)
class Model(TabularResult):
    """A trained policy and what it takes to use it.

    Args:
        policy: The policy.
        fitted: How visitors and products become features.
        catalogue: The products that it was trained on.
        facts: What it was trained on and how well it did, as plain values.
        seen: A hash of each row that it was trained on, and after these of each that chose it among others: so a log
            without times shows them again.
        source: What messages call it.
    """

    action_space: ClassVar[str] = PRODUCTS
    """The name of what it decides on."""

    policy: Policy
    fitted: FittedSchema
    catalogue: Catalogue
    facts: dict[str, Any] = field(default_factory=dict)
    seen: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    source: str = "the model"

    @property
    def rows(self) -> int:
        """Number of rows that it was trained on."""
        return int(self.facts.get("rows", 0))

    @property
    def last(self) -> int | None:
        """Time of the last visit that it was trained on, in microseconds since 1970; None where nobody knows."""
        return _microseconds(self.facts.get("last"))

    @property
    def competitors(self) -> int:
        """Number of policies it was chosen from, by rows later than those that it was trained on; 0 where by none."""
        return int(self.facts.get("judged", {}).get("policies", 0))

    @property
    def last_judged(self) -> int | None:
        """Time of the last visit by which it was chosen, as `last`."""
        return _microseconds(self.facts.get("judged", {}).get("last"))

    def decide(
        self, visitor: Mapping[str, Any], candidates: Sequence[str | int | Mapping[str, Any]] | None = None
    ) -> ProductChoice:
        """Choose what to show to a visitor, as the policy would online: it may explore.

        Args:
            visitor: What is known of the visitor and of the request, by the columns of the table that the model was
                trained on; what is left out counts as missing.
            candidates: What may be shown: ids of products of the catalogue, or mappings with an `id` and the columns
                of a product's features. Default: the whole catalogue.

        Returns:
            The product, and the exact probability with which it was chosen: log it.

        Raises:
            PolicyError: there is no candidate, or one is unknown or comes twice.
        """
        names, context = self._request(visitor, candidates)
        propensities = dense_propensities(self.policy, context)
        action = int(self.policy.select_action(context))
        return ProductChoice(
            names[action], float(propensities[action]), dict(zip(names, propensities.tolist(), strict=True))
        )

    def propensities(
        self, visitor: Mapping[str, Any], candidates: Sequence[str | int | Mapping[str, Any]] | None = None
    ) -> dict[str, float]:
        """Return the probability that `decide` draws each candidate with, by its id; moves nothing."""
        names, context = self._request(visitor, candidates)
        return dict(zip(names, dense_propensities(self.policy, context).tolist(), strict=True))

    def recommend(
        self, visitor: Mapping[str, Any], candidates: Sequence[str | int | Mapping[str, Any]] | None = None
    ) -> str:
        """Return the id of the product that seems best, without exploring; see `decide`."""
        names, context = self._request(visitor, candidates)
        return names[int(self.policy.recommend(context))]

    def learn(
        self,
        visitor: Mapping[str, Any],
        product: str | int | Mapping[str, Any],
        reward: float,
        rewards: Mapping[str, float] | None = None,
    ) -> None:
        """Learn what showing a product to a visitor earned, in units of the objective that the model was trained on.

        Args:
            visitor: The visitor's columns.
            product: The product that was shown, by id, or with its columns.
            reward: What it earned.
            rewards: Rewards by name, which policies with floors need.

        Raises:
            PolicyError: the product is unknown, or the reward is not what the policy can learn from; or it learns from
                logs alone, as `mixed-effects` does, or must know what followed, as `dqn` does.
        """
        if not self.policy.learns_from_rewards:
            name = policy_name(type(self.policy))
            why = "must know what followed" if self.policy.looks_ahead else "learns from logs alone"
            raise PolicyError(f"{name}: {why}; log what is shown, and train a new model (zoosim train)")
        _, context = self._request(visitor, [product])
        self.policy.update(context, 0, reward, None if rewards is None else {"reward_parts": dict(rewards)})

    def prepare(self) -> None:
        """Load, or compile, what deciding takes, by deciding once: no visitor waits for it. Moves no state."""
        self.policy.prepare()
        if self.catalogue.names:
            self.propensities({}, self.catalogue.names[:2])

    def header(self) -> dict[str, Any]:
        """Return what the model's file says beside the policy, as plain values."""
        return {
            "action_space": self.action_space,
            "fitted": self.fitted.model_dump(),
            "names": list(self.catalogue.names),
            "facts": self.facts,
        }

    def arrays(self) -> dict[str, Any]:
        """Return what the model's file holds beside the policy, as arrays."""
        return {"features": self.catalogue.features, "seen": self.seen}

    @classmethod
    def restored(cls, policy: Any, header: Mapping[str, Any], arrays: Mapping[str, Any], **more: Any) -> "Model":
        """Return the model of which a file holds `header` and `arrays`; `more` is what all models have.

        Whatever it raises means that the file is broken.
        """
        fitted = FittedSchema.from_json(json.dumps(header["fitted"]), more["source"])
        catalogue = Catalogue(tuple(map(str, header["names"])), np.asarray(arrays["features"], float))
        return cls(policy, fitted, catalogue, **more)

    def _headline(self) -> str:
        from zoosim.policies.model_tables import headline

        return headline(self)

    def _tables(self) -> "list[Table]":
        from zoosim.policies.model_tables import model_tables

        return model_tables(self)

    def misfit(self) -> bool:
        """Return whether the policy is made for other features than those of the schema."""
        spec = self.policy.spec
        widths = (self.fitted.visitors.width, self.fitted.products.width, self.catalogue.features.shape[1:])
        return widths != (spec.user_dim, spec.product_dim, (spec.product_dim,))

    def check_encoding(self, log: Any) -> None:
        """Refuse a log whose features were made in another way than the model's: `DataError`."""
        if log.fitted is None or log.fitted.fingerprint != self.fitted.fingerprint:
            raise DataError(
                f"{log.source}: its features were made in another way than those of {self.source}; import its table "
                f"again with --like {self.source}"
            )

    def _request(
        self, visitor: Mapping[str, Any], candidates: Sequence[str | int | Mapping[str, Any]] | None
    ) -> tuple[Sequence[str], Context]:
        """Return the candidates' ids, and the request as policies see it."""
        if not isinstance(visitor, Mapping):
            raise PolicyError(f"visitor: got {shown(visitor)}, expected values by column")
        listed = self.catalogue.names if candidates is None else _listed(candidates)
        names = listed if candidates is None else [name_of(candidate) for candidate in listed]
        if not len(names) or len(set(names)) < len(names):
            got = "no candidate" if not len(names) else f"{len(names) - len(set(names))} candidates twice"
            raise PolicyError(f"candidates: got {got}, expected at least one product, each once")
        if candidates is None:  # the arrays themselves, by which a policy knows them again
            ids = self.catalogue.ids
            products = self.catalogue.features
        else:
            features = [self.product_features(candidate) for candidate in listed]
            ids = product_ids(names)
            products = frozen(np.array(features).reshape(len(names), -1))
        context = Context(
            user_id=NOBODY,
            user=frozen(self.fitted.visitors.encode_one(visitor)),
            product_ids=ids,
            products=products,
            available=frozen(np.ones(len(names), bool)),
        )
        return names, context

    def product_features(self, candidate: str | int | Mapping[str, Any]) -> FloatArray:
        """Return the features `(d_p,)` of a candidate as `decide` takes it; raises `PolicyError` as that does."""
        encoder = self.fitted.products
        if encoder.names == [ID]:
            return encoder.encode_one({ID: name_of(candidate)})  # the id alone describes a product
        if isinstance(candidate, Mapping) and not candidate.keys().isdisjoint(encoder.names):
            lacking = [name for name in encoder.names if name not in candidate]
            if lacking:
                raise PolicyError(
                    f"candidates: got {shown(candidate)} without {', '.join(lacking)}, expected all features of the "
                    "product, None where one is missing, or its id alone"
                )
            return encoder.encode_one(candidate)
        place = self.catalogue.place(name_of(candidate))
        if place is not None:
            return np.asarray(self.catalogue.features[place])
        if not encoder.width:
            return np.zeros(0)
        columns = ", ".join(self.fitted.products.names)
        raise PolicyError(
            f"candidates: got {shown(candidate)}, which is not in the catalogue of {len(self.catalogue.names):,} "
            f"products; give it as a mapping of id and its features ({columns})"
        )


def _microseconds(time: str | None) -> int | None:
    return None if time is None else (datetime.fromisoformat(time) - EPOCH) // timedelta(microseconds=1)


def _listed(candidates: Any) -> list[Any]:
    """Return candidates as a list; raises `PolicyError` for what is none, such as one product alone."""
    if isinstance(candidates, str | Mapping) or not isinstance(candidates, Iterable):
        raise PolicyError(f"candidates: got {shown(candidates)}, expected a list of products")
    return list(candidates)


def name_of(candidate: Any) -> str:
    """Normalise a product's id to its canonical text; raises `PolicyError` for none."""
    given = candidate.get(ID) if isinstance(candidate, Mapping) else candidate
    name = text_of(given) if isinstance(given, str | int | float | np.generic) else None
    if name is None:
        raise PolicyError(f"candidates: got {shown(candidate)}, expected an id, or a mapping with an {ID}")
    return name


def save_model(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write a model to a file, whole or not at all.

    Args:
        model: The model.
        path: The file; it ends in `.zoosim`.

    Raises:
        ConfigError: another ending, or a folder that is not there.
        DataError: the policy is made for other features than those of the schema.
        PolicyError: the policy's state cannot be saved.
    """
    where = checked_file("model", path, SUFFIX)
    _check_sizes(model, where)
    header, arrays = packed_policy(model.policy)
    header |= model.header()
    write_packed(where, PACKING, header, {**arrays, **model.arrays()})
    return where


def model_digest(path: str | os.PathLike[str]) -> str:
    """Return the digest by which the model in a file is named, as its head says; raises `DataError`."""
    return packed_digest(Path(path), PACKING)[:DIGEST_CHARACTERS]


def model_content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a model's file, for `load_model`; raises `DataError` for what is taken for one."""
    where = Path(path)
    _refuse_other_kinds(where)
    return packed_content(where, PACKING)


def content_name(content: bytes) -> str:
    """Return the digest by which the model in a file of this content is named, by `model_digest`, too."""
    return content_digest(memoryview(content)[PACKING.head :])[:DIGEST_CHARACTERS]


def load_model(path: str | os.PathLike[str], policy: str | None = None, content: bytes | None = None) -> Model:
    """Return the model of a file that `save_model` wrote; nothing in the file is ever executed.

    Args:
        path: The file.
        policy: `FILE.py:Class` of a policy of your own, which is imported; a built-in policy needs none.
        content: What the file holds, where that was read already: `path` is but what messages call it.

    Raises:
        ConfigError, PolicyError: `policy` names no policy.
        DataError: the file is no model, or broken; or its policy is your own and `policy` does not name it.
    """
    where = Path(path)
    if content is None:
        _refuse_other_kinds(where)
    header, arrays = read_packed(where, PACKING, content)
    try:
        space = find_action_space(header.get("action_space", BOOSTS if "search" in header else PRODUCTS))
    except ConfigError as error:
        raise DataError(f"{where}: {error}; import or install the package of its action space") from None
    policy_class = class_of_saved(where, header, policy)
    try:
        with blamed("its policy cannot be made: "):
            made = unpacked_policy(header, arrays, policy_class)
        if arrays["seen"].dtype != np.uint64 or arrays["seen"].ndim != 1:
            raise ValueError("seen is no row of hashes")
        kept = {"facts": dict(header["facts"]), "seen": arrays["seen"], "source": str(where)}
        model: Model = space.model.restored(made, header, arrays, **kept)
        _ = model.rows, model.last, model.competitors, model.last_judged  # refuses what is no number, or no time
    except Exception as error:  # whatever a file that somebody made on purpose may raise
        reason = " ".join(str(error).split())
        raise DataError(f"{where}: is no model, or broken ({reason}); train it anew") from None
    _check_sizes(model, where)
    return model


def _refuse_other_kinds(path: Path) -> None:
    """Say how to get a model from what is taken for one most often: a log, a table, or the settings of a service."""
    quoted = shlex.quote(str(path))
    train = f"zoosim train {quoted} --out {shlex.quote(f'{path.stem}{SUFFIX}')}"
    advice = {
        ".parquet": f"is a log, not a model; train one on it first ({train})",
        ".csv": f"is a table, not a model; make a log of it (zoosim import {quoted}), and train a model on that",
        ".yaml": f"is a file of settings, not a model; a service takes it by --config {quoted}",
    }
    if path.suffix in advice and path.is_file():
        raise DataError(f"{path}: {advice[path.suffix]}")
    if path.is_dir():
        raise DataError(f"{path}: is a folder, not a model; if it is that of a service, train on its log ({train})")


def schema_of_model(path: str | os.PathLike[str]) -> FittedSchema:
    """Return how the features of a model are made, without making its policy; raises `DataError`."""
    header, _ = read_packed(Path(path), PACKING)
    return FittedSchema.from_json(json.dumps(header.get("fitted")), str(path))


def _check_sizes(model: Model, path: Path) -> None:
    if model.misfit():
        raise DataError(
            f"{path}: its policy {policy_name(type(model.policy))} and its schema do not fit; train it anew"
        )
