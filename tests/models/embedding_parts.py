"""The weights of an embedding network by layer."""

from typing import NamedTuple

from zoosim.core.types import Float32Array, IntArray
from zoosim.nets.network import INPUTS, OUTPUTS


class Network(NamedTuple):
    """Views of the weights: `w1 (d, h)`, `b1 (h,)`, `w2 (h, e)`, `b2 (e,)`, the head `w3 (e,)`, `b3 (1,)`."""

    w1: Float32Array
    b1: Float32Array
    w2: Float32Array
    b2: Float32Array
    w3: Float32Array
    b3: Float32Array


def network(params: Float32Array, layers: IntArray) -> Network:
    """Return the parts of `params (p,)`."""
    (dim, hidden), (_, embedding) = layers[:, [INPUTS, OUTPUTS]].tolist()
    parts, start = [], 0
    for shape in ((dim, hidden), (hidden,), (hidden, embedding), (embedding,), (embedding,), (1,)):
        size = shape[0] * shape[-1] if len(shape) == 2 else shape[0]
        parts.append(params[start : start + size].reshape(shape))
        start += size
    return Network(*parts)
