"""What the measurements say."""

from collections.abc import Sequence

from zoosim.studies.bottleneck.timing import Timing


def verdict(timings: Sequence[Timing]) -> str:
    """Say in a sentence how the exact form compares with the published one, for the smallest and largest network."""
    both = {(t.method, t.parameters, t.candidates): t for t in timings if t.device == "cpu"}
    keys = [(parameters, count) for method, parameters, count in both if method == "exact"]
    pairs = sorted(
        (key for key in keys if ("plain loop", *key) in both), key=lambda key: (key[0], key[1] == 50, key[1])
    )
    if not pairs:
        return "No verdict: no size was measured in both forms."
    told = [_compared(both["plain loop", *key], both["exact", *key]) for key in dict.fromkeys((pairs[0], pairs[-1]))]
    return f"The same bonuses as published, for less: {'; '.join(told)}."


def _compared(plain: Timing, exact: Timing) -> str:
    size = f"{exact.parameters:,} parameters and {exact.candidates:,} candidates"
    ratio = plain.milliseconds / exact.milliseconds
    return f"with {size} {exact.milliseconds:.2f} ms against {plain.milliseconds:,.0f} ms, a factor of {ratio:,.0f}"
