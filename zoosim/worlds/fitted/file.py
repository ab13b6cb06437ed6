"""The file of a fitted world: arrays and plain values, checksummed; nothing in it is executed."""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, PositiveInt

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import place_of, resolved
from zoosim.core.limits import INPUTS, NOT_NEGATIVE, first_flaw
from zoosim.core.packed import Packing, packed_digest, read_packed, write_packed
from zoosim.core.types import frozen
from zoosim.schema.schema import FittedSchema
from zoosim.worlds.base import WORLD_FILE
from zoosim.worlds.fitted.shop import FittedShop, ResponseChange, ResponseWorth, VisitorEffects

PACKING = Packing(b"zoosim world 1\n", "fitted world", "fit it anew (zoosim fit-world)", "zoosim fit-world writes them")
ARRAYS = (
    *("features", "users", "levels", "segments", "centre", "mixing", "coefficients"),
    *("products", "product_ids", "categories"),
)
"""The fields of a shop that are arrays."""


class Facts(BaseModel):
    """Facts on what a world rests on, as its file holds them; more may be said."""

    model_config = ConfigDict(strict=True, extra="allow")

    log: str
    rows: NonNegativeInt
    visitors: NonNegativeInt
    reward: str
    responses: NonNegativeInt
    mean_reward: FiniteFloat
    steps: PositiveInt
    skipped: dict[str, NonNegativeInt]
    segments: list[str]
    segments_how: str
    spreads: dict[str, Annotated[list[FiniteFloat], Len(2, 2)]]


TASTES = ("keys", "information", "target")
"""The arrays of visitors' effects."""


def save_world(shop: FittedShop, path: str | os.PathLike[str]) -> Path:
    """Write a fitted shop to a file.

    Args:
        shop: The shop.
        path: The file; it ends in `.world`.

    Raises:
        ConfigError: another ending, or a folder that is not there.
    """
    where = Path(path)
    if where.suffix != WORLD_FILE or not where.parent.is_dir():
        expected = f"expected a file in a folder that is there, ending in {WORLD_FILE}"
        raise ConfigError(f"world: got {str(path)!r}, {expected}")
    header: dict[str, Any] = {
        "category_names": list(shop.category_names),
        "names": list(shop.names),
        "fitted": None if shop.fitted is None else shop.fitted.model_dump(),
        "facts": dict(shop.facts),
        "spreads": [_spreads(shop.visitors), _spreads(shop.tastes)],
        "changes": [change.row for change in shop.changes],
        "are_logs": None if shop.sizes is None else shop.sizes.are_logs,
    }
    arrays = {name: getattr(shop, name) for name in ARRAYS}
    for name, tastes in (("visitors", shop.visitors), ("tastes", shop.tastes)):
        arrays |= {f"{name}_{part}": getattr(tastes, part) for part in TASTES}
    arrays["changes"] = np.array([change.effects for change in shop.changes])
    if shop.sizes is not None:
        arrays |= {"size_coefficients": shop.sizes.coefficients, "residuals": shop.sizes.residuals}
    write_packed(where, PACKING, header, arrays)
    return where


def load_world(path: str | os.PathLike[str]) -> FittedShop:
    """Return the shop of a file that `fit-world` wrote; raises `DataError`."""
    where = resolved(place_of(path))
    # `_load` keeps shops by path and digest: a file that was written anew is read anew.
    digest = packed_digest(where, PACKING)
    return _load(where, digest)


def world_digest(path: str | os.PathLike[str]) -> str:
    """Return the hash of a world's content; raises `DataError`."""
    return packed_digest(place_of(path), PACKING)


@lru_cache(maxsize=2)
def _load(path: Path, digest: str) -> FittedShop:
    """Read a file once for all worlds of a run."""
    header, arrays = read_packed(path, PACKING)
    try:
        shop = _made(header, arrays, str(path))
        _check(shop)
    except Exception as error:  # whatever a file that somebody made on purpose may raise
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: is no fitted world, or broken ({reason}); fit it anew (zoosim fit-world)") from None
    return shop


def _made(header: dict[str, Any], arrays: dict[str, np.ndarray], source: str) -> FittedShop:
    visitors, tastes = (
        VisitorEffects(
            arrays[f"{name}_keys"], arrays[f"{name}_information"], arrays[f"{name}_target"], *map(float, spreads)
        )
        for name, spreads in zip(("visitors", "tastes"), header["spreads"], strict=True)
    )
    sizes = None
    if header["are_logs"] is not None:
        sizes = ResponseWorth(arrays["size_coefficients"], arrays["residuals"], bool(header["are_logs"]))
    fitted = header["fitted"]
    return FittedShop(
        **{name: frozen(arrays[name]) for name in ARRAYS},
        visitors=visitors,
        tastes=tastes,
        sizes=sizes,
        changes=tuple(
            ResponseChange(int(row), arrays["changes"][place]) for place, row in enumerate(header["changes"])
        ),
        category_names=tuple(map(str, header["category_names"])),
        names=tuple(map(str, header["names"])),
        fitted=None if fitted is None else FittedSchema.from_json(json.dumps(fitted), source),
        facts=Facts.model_validate(header["facts"]).model_dump(),
    )


def _spreads(tastes: VisitorEffects) -> list[float]:
    return [tastes.spread, tastes.estimate, tastes.error]


def _check(shop: FittedShop) -> None:
    """Refuse arrays that do not fit each other with `ValueError`."""
    rows = shop.n_rows
    q = shop.mixing.shape[1] + 1
    expected = {
        "features": (rows, *shop.features.shape[1:2]),
        "products": (shop.n_products, *shop.products.shape[1:2]),
        "users": (rows,),
        "levels": (rows,),
        "segments": (rows,),
        "centre": (shop.features.shape[1],),
        "mixing": (shop.features.shape[1], q - 1),
        "coefficients": (shop.n_draws, shop.n_products, q),
        "product_ids": (shop.n_products,),
        "categories": (shop.n_products,),
    }
    for name, shape in expected.items():
        array = getattr(shop, name)
        if array.shape != shape:
            raise ValueError(f"{name} of shape {array.shape}, expected {shape}")
        if array.dtype.kind == "f" and (flaw := first_flaw(name, array, INPUTS)):
            raise ValueError(flaw)
    if not rows or not shop.n_draws or len(shop.names) not in (0, shop.n_products):
        raise ValueError("no visits, no draws, or not a name for each product")
    _check_effects(shop)


def _check_effects(shop: FittedShop) -> None:
    """Refuse numbers of visitors, segments and categories that are not there with `ValueError`."""
    n_categories = len(shop.category_names)
    _check_whole("users", shop.users, shop.n_rows)
    _check_whole("categories", shop.categories, n_categories)
    _check_whole("visitors", shop.visitors.keys, shop.n_users)
    _check_whole("tastes", shop.tastes.keys, shop.n_users * n_categories)
    for tastes in (shop.visitors, shop.tastes):
        if not np.isfinite(_spreads(tastes)).all():
            raise ValueError(f"spreads of {_spreads(tastes)}, expected finite numbers")
        flaw = first_flaw("information", tastes.information, NOT_NEGATIVE) or first_flaw("target", tastes.target)
        if flaw or not tastes.keys.shape == tastes.information.shape == tastes.target.shape:
            raise ValueError(flaw or "effects of other lengths than their keys")
    for change in shop.changes:
        if change.effects.shape[1:] != (n_categories,) or not np.isfinite(change.effects).all():
            raise ValueError(f"a change of shape {change.effects.shape}, expected finite numbers by category")
        _check_whole("segments", shop.segments, len(change.effects))
    if shop.sizes is not None:
        sizes = shop.sizes
        if sizes.coefficients.shape != shop.coefficients.shape or not sizes.residuals.shape[:1] > (0,):
            raise ValueError(f"sizes of shape {sizes.coefficients.shape}, expected {shop.coefficients.shape}")
        if not np.isfinite(sizes.coefficients).all() or not np.isfinite(sizes.residuals).all():
            raise ValueError("sizes that are no finite numbers")


def _check_whole(name: str, numbers: np.ndarray, stop: int) -> None:
    if numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0 or numbers.max(initial=-1) >= stop:
        raise ValueError(f"{name} of {numbers.dtype}, expected whole numbers from 0 to {stop - 1:,}")
