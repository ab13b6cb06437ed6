"""Ways in which a file can be damaged, the same ones from the same seed."""

from collections.abc import Iterator

import numpy as np

EVERY_LENGTH = 4_096
"""Files are cut at every length up to this one, and at some beyond."""


def bit_flips(content: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield copies of a file with one bit changed, each with words that say which; all bits where there are no more."""
    bits = 8 * len(content)
    rng = np.random.default_rng(seed)
    for bit in rng.choice(bits, min(count, bits), replace=False).tolist():
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit % 8} of byte {bit // 8}", bytes(damaged)


def truncations(content: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield the beginnings of a file: of every length up to `EVERY_LENGTH`, and of `count` random ones beyond."""
    first = range(min(EVERY_LENGTH, len(content)))
    beyond = range(len(first), len(content))
    rng = np.random.default_rng(seed)
    later = rng.choice(beyond, min(count, len(beyond)), replace=False).tolist() if beyond else []
    for length in [*first, *sorted(later)]:
        yield f"the first {length} bytes", content[:length]
