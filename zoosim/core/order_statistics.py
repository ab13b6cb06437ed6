"""Order statistics of arrays of rows: exact, in memory or in a few passes over rows that are read in blocks."""

from typing import Any

import numpy as np

from zoosim.core.blocks import RowArray, row_blocks
from zoosim.core.types import FloatArray

DIGIT_BITS = 16
"""Leading bits by which values are counted in a pass."""

FEW = 1_000_000
"""Values among which the one that is looked for is found by sorting them."""

SIGN = np.uint64(1 << 63)


def order_statistic(values: Any, rank: int) -> Any:
    """Return the value of a `rank`, from 0 for the smallest, among `values (n,)`: whole numbers, or floats but NaN.

    Rows that are read in blocks are counted by the leading bits of their values, then those that share these bits with
    the one looked for by the next bits, until few are left: two passes, but where many values are nearly alike.
    """
    if not isinstance(values, RowArray):
        return np.partition(values, rank)[rank]
    prefix = np.uint64(0)
    for known_bits in range(0, 64, DIGIT_BITS):
        counts = np.zeros(1 << DIGIT_BITS, np.int64)
        for rows in row_blocks(len(values)):
            keys = _sharing(_keys(values[rows]), prefix, known_bits)
            digits = (keys >> np.uint64(64 - known_bits - DIGIT_BITS)) & np.uint64((1 << DIGIT_BITS) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=len(counts))
        below = np.cumsum(counts) - counts
        digit = int(np.searchsorted(below, rank, side="right")) - 1
        rank -= int(below[digit])
        prefix |= np.uint64(digit) << np.uint64(64 - known_bits - DIGIT_BITS)
        if counts[digit] <= FEW:
            known = known_bits + DIGIT_BITS
            keys = np.concatenate([_sharing(_keys(values[rows]), prefix, known) for rows in row_blocks(len(values))])
            return _value(np.partition(keys, rank)[rank], values.dtype)
    return _value(prefix, values.dtype)


def _keys(values: np.ndarray) -> np.ndarray:
    """Return whole numbers that are in the order of the values: bits of floats, those of negative ones reversed."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    if values.dtype.kind == "i":
        return bits ^ SIGN
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _value(key: Any, dtype: np.dtype) -> Any:
    bits = np.uint64(key)
    if dtype.kind == "i":
        bits = bits ^ SIGN
    else:
        bits = bits ^ SIGN if bits & SIGN else ~bits
    return np.array([bits]).view(dtype)[0]


def _sharing(keys: np.ndarray, prefix: np.uint64, bits: int) -> np.ndarray:
    """Return the keys whose first `bits` are those of the prefix."""
    if not bits:
        return keys
    shift = np.uint64(64 - bits)
    return np.asarray(keys[(keys >> shift) == (prefix >> shift)])


def largest(values: Any, k: int) -> FloatArray:
    """Return the `k` largest of `values (n,)`, or all of fewer, in no order."""
    if not isinstance(values, RowArray):
        return values if k >= len(values) else np.partition(values, len(values) - k)[len(values) - k :]
    kept = np.zeros(0, values.dtype)
    for rows in row_blocks(len(values)):
        block = values[rows]
        if len(kept) == k:
            block = block[block > kept.min()]
        kept = np.concatenate([kept, block])
        if len(kept) > k:
            kept = np.partition(kept, len(kept) - k)[len(kept) - k :]
    return kept
