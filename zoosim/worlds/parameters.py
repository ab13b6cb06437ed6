"""The declared parameters of a world, from which the keys of YAML files and of --set, checks and defaults follow."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import check_parameters, parameters_of
from zoosim.policies.base import policy_name

if TYPE_CHECKING:
    from pydantic import BaseModel


class Parametrised:
    """An object with a seed, a length, and parameters, declared by `zoosim.parameter` or as a record's fields."""

    seed: int
    """Tells worlds of one kind apart."""

    parameter_record: "ClassVar[type[BaseModel] | None]" = None
    """The record of the parameters, whose fields they are; None where they are declared with `zoosim.parameter`."""

    numbered_in_order: ClassVar[tuple[str, ...]] = ()
    """Parts of the record that are numbered in their order, so that another order makes another world."""

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Make the world of a seed.

        Args:
            seed: Tells worlds of one kind apart, 0 or more.
            steps: How many visits the run has.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        self.seed = seed
        self.steps = steps
        self._checked = self.checked_parameters(params)
        if self.parameter_record is None:
            for name, value in self._checked.items():
                setattr(self, name, value)

    @classmethod
    def checked_parameters(cls, values: Mapping[str, Any]) -> Any:
        """Return all parameters, those that are given and the defaults: as the `parameter_record`, or as a mapping.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        if cls.parameter_record is None:
            return check_parameters(policy_name(cls), cls, values)
        return build(cls.parameter_record, values, "env")

    @classmethod
    def default_parameters(cls) -> dict[str, Any]:
        """Return the parameters that have a default, as plain data."""
        if cls.parameter_record is None:
            return {name: declared.default for name, declared in parameters_of(cls).items()}
        return cls.parameter_record().model_dump()

    @classmethod
    def check_settings(cls, values: Mapping[str, Any], settings: Sequence[tuple[Sequence[str], Any]]) -> None:
        """Refuse parts of parameters that cannot be set one by one.

        Args:
            values: The parameters as far as they are given otherwise.
            settings: The names that lead to each part that is set, and its value.

        Raises:
            ConfigError: there is no such part.
        """
        return

    @classmethod
    def read_parameters(
        cls, values: Mapping[str, Any], changes: Sequence[Any], steps: int, *, finished: bool
    ) -> tuple[Any, tuple[str, ...]]:
        """Check the parameters of a run; return them with notes on what had to give way.

        Args:
            values: The parameters that are given, as plain data.
            changes: The changes that the experiment has where the parameters name none.
            steps: The length of the run.
            finished: Whether the run is over, so that files are not read again.

        Raises:
            ConfigError: a parameter is invalid.
            DataError: a file is.
        """
        return cls.checked_parameters(values), ()

    @classmethod
    def with_changes(
        cls, values: Mapping[str, Any], field: str, changes: Sequence[Any], steps: int
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Add an experiment's changes to parameters that name none in a field: those that fit the world and the run.

        Args:
            values: The parameters that are given.
            field: The field of the record that lists changes, each with a `step` and a `name`.
            changes: Those of the experiment.
            steps: The length of the run.

        Returns:
            The parameters, and a note on each change that is dropped.
        """
        kept = []
        notes = []
        for change in changes:
            reason = f"the run ends at {steps}"
            try:
                # One by one, so that a change which does not fit leaves the others alone.
                cls.checked_parameters({**values, field: [change]})
            except ConfigError:
                reason = "it does not fit this world"
            else:
                if change.step < steps:
                    kept.append(change)
                    continue
            notes.append(f"shock {change.name!r} at step {change.step} is dropped: {reason}")
        return {**values, field: kept}, tuple(notes)

    @property
    def yaml_settings(self) -> dict[str, Any]:
        """The parameters as they are written to config.yaml."""
        if self.parameter_record is None:
            return dict(self._checked)
        values: dict[str, Any] = self._checked.model_dump(exclude_none=True)
        return values

    @property
    def run_identity(self) -> dict[str, Any]:
        """The identity of this world, by the names in config.yaml; files by name, not by content."""
        return self.identity_of(self._checked)

    def identity_of(self, config: Any) -> dict[str, Any]:
        """Return the `run_identity` of a world of such parameters."""
        values = config if self.parameter_record is None else config.model_dump()
        # Mappings are equal in any order, so the order is stated beside them.
        orders = {f"the order of env.{name}": list(getattr(config, name)) for name in self.numbered_in_order}
        return {f"env.{name}": value for name, value in values.items()} | orders

    @property
    def files_digest(self) -> str:
        """A hash of the content of the files that the parameters name; empty where there are none."""
        return ""
