"""A digest of ids and vectors that does not depend on their order, and that changes with each of them in short time."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import IntArray


@jit
def content_sums(ids: IntArray, vectors: np.ndarray) -> np.ndarray:
    """Return the sums `(2,)` of two 64-bit hashes of each id with its vector `(n, d)`, in 32 bits.

    Sums of two sets are the sum of their sums, modulo 2^64: what is removed is subtracted. No defence against somebody
    who looks for equal digests on purpose.
    """
    sums = np.zeros(2, np.uint64)
    words = vectors.view(np.uint32)
    for i in range(len(ids)):
        first = mix(np.uint64(ids[i]))
        second = mix(np.uint64(~first))
        for j in range(words.shape[1]):
            first = mix(np.uint64(first ^ np.uint64(words[i, j])))
            second = mix(np.uint64(second ^ np.uint64(words[i, j])))
        sums[0] += first
        sums[1] += second
    return sums
