"""Randomness: named streams from one seed, and counter-based draws.

Streams are children of one `numpy.random.SeedSequence`, told apart by name, so a draw added in one place moves nothing
elsewhere. Counter-based draws hash (key, i, j) with the SplitMix64 finaliser (Steele, Lea & Flood 2014): whether the
visitor of step t clicks product p is settled by (key, t, p), whoever asks and in whatever order. That is what makes
comparisons between policies paired.
"""

import zlib

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray


def _child(seed: int, names: tuple[str, ...]) -> np.random.SeedSequence:
    # By CRC-32 and not by `hash`, which differs from process to process.
    return np.random.SeedSequence(seed, spawn_key=tuple(zlib.crc32(name.encode()) for name in names))


def stream(seed: int, *names: str) -> np.random.Generator:
    """Return the generator called `names` of the family of `seed` (an integer of 0 or more)."""
    return np.random.default_rng(_child(seed, names))


def stream_key(seed: int, *names: str) -> np.uint64:
    """Return a 64-bit key for counter-based draws, called `names`, of the family of `seed`."""
    return np.uint64(_child(seed, names).generate_state(1, np.uint64)[0])


def draw_key(rng: np.random.Generator) -> np.uint64:
    """Draw a 64-bit key for counter-based draws from `rng`."""
    return np.uint64(rng.integers(0, 2**64, dtype=np.uint64))


@jit
def mix(z: np.uint64) -> np.uint64:
    """Scramble 64 bits (SplitMix64's finaliser)."""
    z = np.uint64(z + np.uint64(0x9E3779B97F4A7C15))
    z = np.uint64((z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    z = np.uint64((z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return np.uint64(z ^ (z >> np.uint64(31)))


@jit
def uniform(key: np.uint64, i: int, j: int) -> float:
    """Return the draw from U[0, 1) that belongs to (key, i, j)."""
    # Mixed in one after the other: by their sum, or by `i ^ j`, (1, 2) and (2, 1) would draw the same.
    h = mix(np.uint64(mix(np.uint64(key ^ mix(np.uint64(i)))) ^ np.uint64(j)))
    # 53 bits, as many as a float holds exactly, so that 1.0 is never drawn.
    return float(h >> np.uint64(11)) * 2.0**-53


@jit
def normal(key: np.uint64, i: int, j: int) -> float:
    """Return the draw from N(0, 1) made of the uniforms (key, i, 2j) and (key, i, 2j + 1)."""
    return _bell(uniform(key, i, 2 * j), uniform(key, i, 2 * j + 1))


@jit
def _bell(u: float, v: float) -> float:
    """Make two draws from U[0, 1) one from N(0, 1) (Box & Muller 1958)."""
    # 1 - u lies in (0, 1], so that its logarithm is finite.
    return float(np.sqrt(-2.0 * np.log(1.0 - u)) * np.cos(2.0 * np.pi * v))


@jit
def gamma(key: np.uint64, i: int, j: int, shape: float) -> tuple[float, int]:
    """Return a draw from Gamma(shape, 1) made of uniforms (key, i, j), (key, i, j + 1), ..., and the next free j.

    Source: Marsaglia & Tsang (2000), with their power of a uniform for a shape below 1.
    """
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - uniform(key, i, j)) ** (1.0 / shape)
        j = j + 1
        shape = shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = _bell(uniform(key, i, j), uniform(key, i, j + 1))
        u = 1.0 - uniform(key, i, j + 2)
        v = 1.0 + c * x
        j += 3  # used up, whether the try is accepted or not
        if v > 0.0:
            v = v * v * v
            if np.log(u) < 0.5 * x * x + d - d * v + d * np.log(v):
                return boost * d * v, j


@jit
def beta(key: np.uint64, i: int, j: int, a: float, b: float) -> tuple[float, int]:
    """Return a draw from Beta(a, b) made of uniforms (key, i, j), ..., and the next free j."""
    x, j = gamma(key, i, j, a)
    y, j = gamma(key, i, j, b)
    total = x + y
    # Both may underflow to 0 where a and b are tiny.
    return (x / total if total > 0.0 else 0.5), j


@jit
def uniforms(key: np.uint64, i: IntArray, j: IntArray) -> FloatArray:
    """Return the draws that belong to (key, i[n], j[n]): shapes (n,), (n,) -> (n,)."""
    out = np.empty(i.shape[0])
    for n in range(i.shape[0]):
        out[n] = uniform(key, i[n], j[n])
    return out
