"""A labelled table as a world: each row a visitor, each class a product, a click for the right class."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.config import LabelledConfig
from zoosim.core.digests import short_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import place_of, resolved
from zoosim.core.parameters import unknown
from zoosim.core.rng import stream, stream_key
from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.worlds.built import BuiltWorld
from zoosim.worlds.facts import CLICKS, Reference
from zoosim.worlds.frames import read_frame
from zoosim.worlds.table import Period, TableWorld

MAX_CATEGORIES = 100
MAX_CLASSES = 1_000


class LabelledTable(NamedTuple):
    """Features `(n, d)` scaled to [0, 1], labels `(n,)` as indices into `classes`."""

    features: FloatArray
    labels: IntArray
    classes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash the content."""
        return short_digest(repr(self.classes), self.features.tobytes(), self.labels.tobytes())


def read_table(config: LabelledConfig) -> LabelledTable:
    """Read the table that `config` names, or scikit-learn's handwritten digits; raises `DataError`."""
    if config.data is None:
        from sklearn.datasets import load_digits

        features, labels = load_digits(return_X_y=True)
        return LabelledTable(_scaled(features), labels.astype(np.int64), tuple(str(digit) for digit in range(10)))
    frame = read_frame(Path(config.data))
    if config.label not in frame.columns:
        raise DataError(unknown(f"{config.data}: no column", config.label, frame.columns) + "; name it by --label")
    return _to_table(frame, config.label, config.data)


@dataclass(frozen=True, kw_only=True)
class LabelledWorld(TableWorld):
    """Rows of a labelled table as visitors; `repeat` says whether rows come back."""

    repeat: bool

    def before(self) -> TableWorld | None:
        """Return the world as it stood before visit 0; None where a row comes once, as it would come back."""
        return super().before() if self.repeat else None


def build_labelled_world(table: LabelledTable, *, seed: int, steps: int, repeat: bool = False) -> LabelledWorld:
    """Return the world of `steps` shuffled visits, each of another row.

    Args:
        table: The rows.
        seed: Tells the orders of the rows apart.
        steps: Number of visits.
        repeat: Whether there are further passes over the table, each in a new order, where there are more visits than
            rows. Rows that come back are not to be recognised: visitors are anonymous.

    Raises:
        ConfigError: there are more visits than rows, and rows do not come back.
    """
    rng = stream(seed, "visits")
    n_rows = len(table.labels)
    n_classes = len(table.classes)
    if steps > n_rows and not repeat:
        raise _too_long(steps, n_rows)
    passes = ceil(steps / n_rows)
    schedule = np.concatenate([rng.permutation(n_rows) for _ in range(passes)])[:steps]
    return LabelledWorld(
        seed=seed,
        repeat=repeat,
        users=frozen(table.features.copy()),
        segments=frozen(table.labels.copy()),
        products=frozen(np.eye(n_classes)),
        groups=frozen(np.arange(n_classes)),
        periods=(Period(0, frozen(np.eye(n_classes)), frozen(np.ones(n_classes, bool))),),
        segment_names=table.classes,
        group_names=table.classes,
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        schedule=frozen(schedule),
        anonymous=True,
    )


def _too_long(steps: int, n_rows: int) -> ConfigError:
    """Return the refusal of a run of more visits than rows."""
    return ConfigError(
        f"steps: got {steps:,}, expected at most {n_rows:,}, as the table has that many rows and each comes once; "
        "give fewer steps, or let rows come back by --set env.repeat=true"
    )


class Labelled(BuiltWorld):
    """A labelled table whose rows come as visitors; policies choose a class for each."""

    parameter_record = LabelledConfig
    reward_scale = CLICKS._replace(name="accuracy", word="right answers")
    knows_users = False

    @cached_property
    def table(self) -> LabelledTable:
        """The table, read once in each process."""
        changed_at = 0
        with suppress(OSError):
            changed_at = place_of(self.config.data or "").stat().st_mtime_ns
        # The time of the last change is in the key, so that a table written anew is read anew.
        return _kept_table(self.config.model_dump_json(), changed_at)

    @classmethod
    def read_parameters(
        cls, values: Mapping[str, Any], changes: Sequence[Any], steps: int, *, finished: bool
    ) -> tuple[LabelledConfig, tuple[str, ...]]:
        """Check the parameters of a run; the table is found from everywhere."""
        config: LabelledConfig = cls.checked_parameters(values)
        if config.data is not None and not finished:
            config = config.model_copy(update={"data": str(resolved(config.data))})
        return config, ()

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> LabelledWorld:
        """Return the world as every policy sees it."""
        return build_labelled_world(self.table, seed=self.seed, steps=self.steps, repeat=self.config.repeat)

    @property
    def has_past(self) -> bool:
        """True where there are visits before the run: only where rows come back."""
        repeat: bool = self.config.repeat
        return repeat

    @property
    def longest_run(self) -> int | None:
        """As many visits as rows, which come once unless they are to come back."""
        return None if self.config.repeat else len(self.table.labels)

    def check_seeds(self, seeds: Iterable[int]) -> None:
        """Refuse a longer run."""
        if self.longest_run is not None and self.steps > self.longest_run:
            raise _too_long(self.steps, self.longest_run)

    @property
    def run_identity(self) -> dict[str, Any]:
        """The identity of this world, beside the table's content."""
        return {"env.repeat": self.config.repeat}

    @property
    def files_digest(self) -> str:
        """A hash of the content of the table."""
        return self.table.digest

    def reference_values(self) -> tuple[Reference, ...]:
        """Return the cross-validated accuracy of a classifier trained on all labels; none with a class of one row."""
        accuracy = classifier_accuracy(self.table)
        return () if accuracy is None else (Reference("classifier trained on all labels (5-fold)", accuracy),)


@lru_cache(maxsize=1)
def _kept_table(config_json: str, changed_at: int) -> LabelledTable:
    return read_table(LabelledConfig.model_validate_json(config_json))


def classifier_accuracy(table: LabelledTable) -> float | None:
    """Return the 5-fold cross-validated accuracy of logistic regression on every label; None with a class of one row.

    It never sees the rows it is judged by; nor does a bandit, unless rows come back.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    smallest = int(np.bincount(table.labels).min())
    if smallest < 2:
        return None
    folds = StratifiedKFold(min(5, smallest), shuffle=True, random_state=0)
    scores = cross_val_score(LogisticRegression(C=10.0, max_iter=2_000), table.features, table.labels, cv=folds)
    return float(scores.mean())


def _to_table(frame: pl.DataFrame, label: str, source: str) -> LabelledTable:
    if frame.height < 2 or frame.width < 2:
        raise DataError(f"{source}: got {frame.height} rows and {frame.width} columns, expected at least 2 of each")
    column = frame[label]
    labels = _words(column.fill_nan(None) if column.dtype.is_float() else column, source)
    if labels.null_count():
        raise DataError(f"{source}: column {label} has {labels.null_count()} missing labels; fill or drop those rows")
    # `unique` comes in any order, and numbers of classes are part of a run.
    classes = tuple(sorted(labels.unique()))
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise DataError(f"{source}: column {label} has {len(classes)} classes, expected 2 to {MAX_CLASSES}")
    columns = [_column(frame[name], source) for name in frame.columns if name != label]
    number_of = {name: number for number, name in enumerate(classes)}
    return LabelledTable(_scaled(np.hstack(columns)), np.array([number_of[name] for name in labels]), classes)


def _column(column: pl.Series, source: str) -> FloatArray:
    """Return a column as features `(n, 1)`, or `(n, categories)` when it holds words."""
    numeric = column.dtype.is_numeric() or column.dtype == pl.Boolean
    values = column.cast(pl.Float64) if numeric else _words(column, source)
    missing = values.null_count() + (int((~values.is_finite()).sum()) if numeric else 0)
    if missing:
        raise DataError(f"{source}: column {column.name} has {missing} missing or non-finite values; fill or drop them")
    if numeric:
        return np.asarray(values.to_numpy(), np.float64).reshape(-1, 1)
    names = sorted(values.unique())
    if len(names) > MAX_CATEGORIES:
        raise DataError(
            f"{source}: column {column.name} has {len(names)} different words, {MAX_CATEGORIES} at most; drop it"
        )
    return np.asarray(values.to_numpy()[:, None] == np.array(names, dtype=object)[None, :], np.float64)


def _words(column: pl.Series, source: str) -> pl.Series:
    """Return a column as text."""
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        kind = f"column {column.name} holds values of type {column.dtype}"
        raise DataError(f"{source}: {kind}, expected numbers or words; drop it")
    return column.cast(pl.String)


def _scaled(features: np.ndarray) -> FloatArray:
    """Map each column to [0, 1]; a constant one to 0. Halves, so that no width is too large for a float."""
    features = features / 2
    low = features.min(axis=0)
    high = features.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.ascontiguousarray((features - low) / width, np.float64)
