"""A contestant of a run that has learned before: the policy of a model of `zoosim train`, or of `save_policy`."""

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoosim.core.digests import SHORT_LENGTH, file_digest, short_digest
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.files import place_of, resolved
from zoosim.core.types import PolicySpec
from zoosim.core.user_code import code_digest
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.files import MODEL, OF, file_and_class
from zoosim.policies.model import load_model
from zoosim.policies.persistence import load_policy
from zoosim.policies.registry import BUILT_IN, PolicyEntry, find_class
from zoosim.schema.schema import FittedSchema


class Saved(NamedTuple):
    """The content of a file: a policy, how its features were made where the file says so, and a hash of the content."""

    policy: Policy
    fitted: FittedSchema | None
    digest: str


def read_saved(source: str) -> Saved:
    """Return what a file of `zoosim train` or `save_policy` holds; raises `DataError` for a broken one."""
    file, own_class = file_and_class(source)
    place = place_of(file)
    fitted = None
    if file.endswith(MODEL):
        model = load_model(place, own_class)
        policy = model.policy
        fitted = model.fitted
    else:
        policy = load_policy(place, own_class)
    return Saved(policy, fitted, file_digest(place)[:SHORT_LENGTH])


@dataclass(frozen=True)
class SavedEntry(PolicyEntry):
    """A trained policy as a contestant: each seed begins with what its file holds, and draws of its own.

    `saved_class` is the policy's built-in name or `FILE.py:Class`, `digest` a hash of the file.
    """

    saved_class: str = ""
    digest: str = ""

    @property
    def built_in(self) -> bool:
        """True where the policy's code comes with zoosim."""
        return self.saved_class in BUILT_IN

    @property
    def cls(self) -> type[Policy]:
        """The policy's class, imported when asked for."""
        return find_class(self.saved_class)

    @property
    def past_visits(self) -> int:
        """None: it has learned from a past of its own."""
        return 0

    def make(self, spec: PolicySpec, rng: np.random.Generator, schema: FittedSchema | None = None) -> Policy:
        """Load the policy, which draws from `rng` from now on.

        Args:
            spec: The task of the run.
            rng: The only source of its random draws.
            schema: How the world's features are made; None where they are not made from tables.

        Raises:
            DataError: the file has changed since the run was planned, or cannot be read.
            PolicyError: the policy was trained on other features than the world's, or for other templates.
        """
        saved = read_saved(str(self.source))
        if saved.digest != self.digest:
            raise DataError(f"{self.source}: has changed while it was used; leave it as it is until the run is over")
        if schema is not None and saved.fitted is not None and schema.fingerprint != saved.fitted.fingerprint:
            raise PolicyError(
                f"policy {self.name}: was trained on features that are made in another way than this world's; train it "
                "and fit the world on logs of one import (zoosim import --like)"
            )
        trained_on = saved.policy.spec.user_dim, saved.policy.spec.product_dim
        if trained_on != (spec.user_dim, spec.product_dim):
            raise PolicyError(
                f"policy {self.name}: was trained on {trained_on[0]} features of visitors and {trained_on[1]} of "
                f"products, this world has {spec.user_dim} and {spec.product_dim}; run it in the world of its log "
                "(zoosim fit-world)"
            )
        templates = saved.policy.spec.templates
        if templates and spec.templates and templates != spec.templates:
            raise PolicyError(
                f"policy {self.name}: was made for the templates {', '.join(templates)}, this world has "
                f"{', '.join(spec.templates)}; run it in a shop with the templates of its log (env.templates)"
            )
        saved.policy.reseed(rng)
        return saved.policy


def make_saved_entry(source: str, name: str | None = None) -> SavedEntry:
    """Return the entry of a file of a trained policy.

    Args:
        source: `FILE.zoosim`, `FILE.npz` or `FILE@FILE.py:Class`.
        name: Name in the run; by default that of the file, with its ending where the rest is a built-in policy's name.

    Raises:
        ConfigError: a file that is not there.
        DataError: the file is broken, or its policy is the user's own and no class is named.
    """
    file, own_class = file_and_class(source)
    path = resolved(file)
    if not path.is_file():
        raise ConfigError(f"policy {source}: the file is not there; zoosim train writes it (--out {path.name})")
    whole = f"{path}{OF}{_absolute(own_class)}" if own_class else str(path)
    saved = read_saved(whole)
    cls = type(saved.policy)
    saved_class = _absolute(own_class) if own_class else policy_name(cls)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name if path.stem in BUILT_IN else path.stem)
    fingerprint = short_digest(f"{saved.digest} {code_digest(cls)}")
    return SavedEntry(name or stem, whole, {}, fingerprint, saved_class, saved.digest)


def _absolute(own_class: str) -> str:
    """Return `FILE.py:Class` with the file's whole path."""
    file, _, name = own_class.rpartition(":")
    return f"{resolved(file)}:{name}"
