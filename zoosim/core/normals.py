"""Counter-based normal draws, many at once.

Each 64 bits, hashed as in `zoosim.core.rng`, make two draws (Box & Muller 1958): the upper half a radius, the lower an
angle. Logarithm and circle are series in plain arithmetic, exact to 1e-10, which compilers turn into vector code and
every machine computes to the same bits: 15 times faster than calls of the mathematics library.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import FloatArray, IntArray

BLOCK = 256
"""Hashes that are worked on together; block b makes the draws from 2 b BLOCK on."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
EXPONENT = np.uint64(52)
MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
ONE = np.uint64(0x3FF0000000000000)
MAGIC = np.uint64(0x4330000000000000)
SHIFT = 2.0**52
"""The bits of 2^52: whole numbers below it, put into its mantissa, are read back as 2^52 + n."""

LOWER = np.uint64(0xFFFFFFFF)
ROOT_2 = 2.0**0.5
LN_2 = float(np.log(2.0))
QUARTER_TURN = float(np.pi / 2)


class RememberedNormals(NamedTuple):
    """The draws that `fill_normals` makes for one key and rows i of draws, kept for whoever asks for them next.

    A row begins alike however many of its draws are asked for, so that those kept serve all who need as many or fewer.

    Attributes:
        key: The key `(1,)`.
        span: The first of the rows, and how many they are `(2,)`; 0 rows before anything is known.
        known: How many draws of each row are known `(1,)`.
        numbers: Room for n draws `(n,)`, those that are known row by row without gaps: near to each other, they are
            read faster.
    """

    key: np.ndarray
    span: IntArray
    known: IntArray
    numbers: FloatArray


def new_remembered(room: int) -> RememberedNormals:
    """Return room for so many draws, of which none is known."""
    return RememberedNormals(np.zeros(1, np.uint64), np.zeros(2, np.int64), np.zeros(1, np.int64), np.empty(room))


@jit
def remember(normals: RememberedNormals, key: np.uint64, first: int, rows: int, count: int) -> bool:
    """Make the first `count` draws of `rows` rows from `first` on known; False where there is no room for them."""
    room = normals.numbers.shape[0] // rows
    if count > room:
        return False
    span = normals.span
    is_same = normals.key[0] == key and span[0] == first and span[1] == rows
    if not is_same or normals.known[0] < count:
        # More than asked for where the same rows are asked for again, so that few requests fill them anew.
        known = min(max(count, 2 * normals.known[0]), room) if is_same else count
        for r in range(rows):
            fill_normals(key, first + r, normals.numbers[r * known : (r + 1) * known])
        normals.key[0] = key
        span[0], span[1] = first, rows
        normals.known[0] = known
    return True


@jit
def fill_normals(key: np.uint64, i: int, out: FloatArray) -> None:
    """Fill `out (n,)` with the draws from N(0, 1) that belong to (key, i, 0), ..., (key, i, n - 1)."""
    row = mix(np.uint64(key ^ mix(np.uint64(i))))
    radius = np.empty(BLOCK)
    angle = np.empty(BLOCK)
    for start in range(0, out.shape[0], 2 * BLOCK):
        used = min(BLOCK, out.shape[0] - start)
        _split(row, start, radius[:used], angle[:used])
        _to_radius(radius[:used])
        _to_circle(radius[:used], angle[:used])
        for j in range(used):  # an assignment of slices takes seconds to compile
            out[start + j] = angle[j]
        for j in range(min(BLOCK, out.shape[0] - start - BLOCK)):
            out[start + BLOCK + j] = radius[j]


@jit
def _split(row: np.uint64, start: int, radius: FloatArray, angle: FloatArray) -> None:
    """Hash numbers from `start` on: the upper halves, in (0, 2^32), to `radius`, the lower, in [0, 1), to `angle`."""
    upper = radius.view(np.uint64)
    lower = angle.view(np.uint64)
    for j in range(radius.shape[0]):
        z = np.uint64(row + np.uint64(start + j) * GOLDEN)
        z = np.uint64((z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
        z = np.uint64((z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
        z = np.uint64(z ^ (z >> np.uint64(31)))
        upper[j] = (z >> np.uint64(32)) | MAGIC
        lower[j] = (z & LOWER) | MAGIC
    for j in range(radius.shape[0]):
        radius[j] = radius[j] - SHIFT + 0.5
        angle[j] = (angle[j] - SHIFT) * 2.0**-32


@jit
def _to_radius(x: FloatArray) -> None:
    """Replace x in (0, 2^32) by sqrt(-2 ln(x / 2^32)), with ln m = 2 artanh((m - 1) / (m + 1)) of the mantissa m."""
    exponents = np.empty(BLOCK)
    bits = x.view(np.uint64)
    high = exponents.view(np.uint64)
    for j in range(x.shape[0]):
        high[j] = (bits[j] >> EXPONENT) | MAGIC
        bits[j] = (bits[j] & MANTISSA) | ONE
    for j in range(x.shape[0]):
        # Mantissas from sqrt(1/2) to sqrt(2) keep |t| below .172, where the series converges fast.
        large = x[j] > ROOT_2
        m = 0.5 * x[j] if large else x[j]
        # 1023 is the bias of exponents; 32 divides by 2^32.
        exponent = exponents[j] - SHIFT - (1023.0 + 32.0) + (1.0 if large else 0.0)
        t = (m - 1.0) / (m + 1.0)
        s = t * t
        series = 1.0 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s / 13)))))
        x[j] = np.sqrt(-2.0 * (exponent * LN_2 + 2.0 * t * series))


@jit
def _to_circle(radius: FloatArray, angle: FloatArray) -> None:
    """Replace radius r and angle v in turns by r sin(2 pi v) and r cos(2 pi v), around the nearest quarter."""
    for j in range(radius.shape[0]):
        # Around the nearest quarter the angle is at most an eighth of a turn, where so few terms are enough. Odd
        # quarters swap sine and cosine, and those of the second half change the sign of both.
        quarter = np.floor(4.0 * angle[j] + 0.5)
        x = (4.0 * angle[j] - quarter) * QUARTER_TURN
        s = x * x
        sine = x * (1.0 + s * (-1 / 6 + s * (1 / 120 + s * (-1 / 5040 + s * (1 / 362880 - s / 39916800)))))
        cosine = 1.0 + s * (
            -1 / 2 + s * (1 / 24 + s * (-1 / 720 + s * (1 / 40320 + s * (-1 / 3628800 + s / 479001600))))
        )
        even = quarter - 2.0 * np.floor(0.5 * quarter) == 0.0
        r = -radius[j] if quarter == 2.0 or quarter == 3.0 else radius[j]
        angle[j] = r * (cosine if even else -sine)
        radius[j] = r * (sine if even else cosine)
