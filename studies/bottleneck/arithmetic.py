"""The orders of time and memory of bandits over K candidates, and what they come to at sizes that are worth knowing.

Operations are the leading terms with a factor of 1; memory counts numbers of `BYTES` each.
"""

from collections.abc import Callable
from typing import NamedTuple

from studies.bottleneck.timing import parameters_of
from zoosim.report.sections import PageTable

BYTES = 4
"""Bytes per number: float32."""

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
"""Each is 1,000 of the one before it."""


class Sizes(NamedTuple):
    """Sizes of a task and of its model, 0 where the form has none: K candidates, d features, p weights, e embedding."""

    candidates: int
    features: int = 0
    weights: int = 0
    embedding: int = 0


class Form(NamedTuple):
    """A form of bandit: its orders as text, whether candidates are valued at once, and counts as functions of sizes.

    `operations` of a decision; numbers in its `matrices`, and in all that is held `beside` them.
    """

    time: str
    memory: str
    batched: str
    operations: Callable[[Sizes], int]
    matrices: Callable[[Sizes], int]
    beside: Callable[[Sizes], int] = lambda s: 0


DISJOINT = "LinUCB"
LOOP = "plain loop"
JACOBIAN = "Jacobian"
LAST_LAYER = "embedding"

FORMS = {
    DISJOINT: Form(
        "O(K d^2)",
        "O(K d^2)",
        "yes",
        lambda s: s.candidates * s.features**2,
        lambda s: s.candidates * s.features**2,
    ),
    LOOP: Form(
        "O(p^3 + K p^2)",
        "O(p^2)",
        "no",
        lambda s: s.weights**3 + s.candidates * s.weights**2,
        lambda s: s.weights**2,
    ),
    JACOBIAN: Form(
        "O(p^3 + K p^2)",
        "O(p^2 + K p)",
        "yes",
        lambda s: s.weights**3 + s.candidates * s.weights**2,
        lambda s: s.candidates * s.weights,
        lambda s: s.weights**2,
    ),
    LAST_LAYER: Form(
        "O(K p + e^3 + K e^2)",
        "O(p + e^2 + K e)",
        "yes",
        lambda s: s.candidates * s.weights + s.embedding**3 + s.candidates * s.embedding**2,
        lambda s: s.embedding**2,
        lambda s: s.weights + s.candidates * s.embedding,
    ),
}


def resnet18_weights() -> int:
    """Count the weights of ResNet-18 with 1,000 classes, normalisation included (He et al. 2016, table 1)."""
    widths = (64, 128, 256, 512)
    weights = _convolution(3, 64, 7)
    below = 64
    for width in widths:
        # Two blocks of two convolutions; the first takes the layer below, through a 1 x 1 where widths differ.
        weights += _convolution(below, width, 3) + 3 * _convolution(width, width, 3)
        weights += _convolution(below, width, 1) if below != width else 0
        below = width
    return weights + (below + 1) * 1_000


def _convolution(inputs: int, outputs: int, side: int) -> int:
    """Count the weights of a convolution without bias, and the scale and shift of the normalisation behind it."""
    return inputs * outputs * side**2 + 2 * outputs


EXAMPLES: tuple[tuple[str, str, Sizes], ...] = (
    (DISJOINT, "small shop", Sizes(50, features=9)),
    (DISJOINT, "large shop", Sizes(2_000_000, features=200)),
    (LOOP, "9-64-1", Sizes(50, weights=parameters_of("64"))),
    (LOOP, "9-128-64-1", Sizes(50, weights=parameters_of("128-64"))),
    (LOOP, "11 million", Sizes(50, weights=11_000_000)),
    (LOOP, "ResNet-18", Sizes(50, weights=resnet18_weights())),
    (JACOBIAN, "9-64-1", Sizes(50, weights=parameters_of("64"))),
    (JACOBIAN, "100,000", Sizes(1_000_000, weights=100_000)),
    (LAST_LAYER, "9-64-32-1", Sizes(50, weights=parameters_of("64-32"), embedding=32)),
    (LAST_LAYER, "9-64-32-1", Sizes(2_000_000, weights=parameters_of("64-32"), embedding=32)),
    (LAST_LAYER, "ResNet-18", Sizes(50, weights=resnet18_weights(), embedding=512)),
)


def orders_table() -> PageTable:
    """Return the orders of each form."""
    rows = [(name, form.time, form.memory, form.batched) for name, form in FORMS.items()]
    caption = (
        "K candidates, d features, p weights of the network, e numbers of its last hidden layer. Time is of a "
        "decision; memory is of what is kept, and of what is held at once: K p gradients, K e embeddings. The K p in "
        "the time of the last row is the pass through the network."
    )
    heads = ("form", "time", "memory", "candidates at once")
    return PageTable("Orders of time and memory", heads, rows, n_text=4, caption=caption, printed=True)


def sizes_table() -> PageTable:
    """Return operations and memory of each form at some sizes, computed from its orders."""
    rows = [_size_row(name, label, sizes) for name, label, sizes in EXAMPLES]
    heads = ("form", "of", "K", "d or p", "operations", "memory", "matrices")
    caption = (
        f"Leading terms alone, at {BYTES} bytes per number; d of LinUCB, p of the others. Matrices: K of d x d, one of "
        "p x p or e x e, or K x p of the Jacobian."
    )
    return PageTable("Operations and memory by size", heads, rows, n_text=2, caption=caption, printed=True)


def _size_row(name: str, label: str, sizes: Sizes) -> tuple[str, ...]:
    form = FORMS[name]
    counts = (f"{sizes.candidates:,}", f"{sizes.features or sizes.weights:,}")
    matrices = form.matrices(sizes)
    memory = write_bytes(BYTES * (matrices + form.beside(sizes)))
    return (name, label, *counts, f"{form.operations(sizes):.2g}", memory, write_bytes(BYTES * matrices))


def write_bytes(count: float) -> str:
    """Write a number of bytes in the unit that leaves 1 to 999 of it, such as 320 GB."""
    unit = 0
    while count >= 1_000 and unit < len(UNITS) - 1:
        count /= 1_000
        unit += 1
    return f"{count:,.3g} {UNITS[unit]}"
