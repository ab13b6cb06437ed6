"""The page of the devices study: what decisions and training take on the processor and on a graphics card."""

from collections.abc import Sequence

from studies.cards import NO_CARD, card_sentence
from studies.devices.timing import Timing
from studies.rows import rows_where
from zoosim.report.sections import Page, PageTable

TERMS = {
    "decision": "A search by CEM, 5 iterations of 64 samples per request, over the mean + std of 5 members with two "
    "layers of 64 units. All samples of an iteration, of all requests, are one batch.",
    "epoch": "Training all members once on all rows, with copies to the card and back.",
    "cpu": "One thread of compiled code, which needs no torch.",
    "times the processor": "The processor's shortest time for a task over this one's: above 1 a card is faster.",
}


def build_page(timings: Sequence[Timing]) -> Page:
    """Say what was measured."""
    return Page(answer(timings), [_table(timings)], terms=TERMS, details=_details(timings))


def answer(timings: Sequence[Timing]) -> str:
    """Return from how many requests at once on a card is faster than the processor."""
    decisions = [timing for timing in timings if timing.task == "decision"]
    on_cards = [timing for timing in decisions if timing.device != "cpu"]
    if not on_cards:
        return NO_CARD
    faster = [timing for timing in on_cards if _gain(timing, timings) > 1.0]
    if not faster:
        return "Compute Q-ensembles on the processor: no number of requests at once was decided faster on a card."
    first = min(faster, key=lambda timing: timing.size)
    return f"Take a card for {first.size:,} requests at once: {_gain(first, timings):.1f} times one thread's speed."


def _details(timings: Sequence[Timing]) -> list[str]:
    on_cards = [timing for timing in timings if timing.device != "cpu"]
    if not on_cards:
        return []  # the answer has said so
    difference = max(timing.difference for timing in on_cards)
    return [
        card_sentence(timing.device for timing in on_cards),
        "By the same weights its predictions differ from the processor's by at most "
        f"{difference:.1e} of their standard deviation.",
    ]


def _gain(timing: Timing, timings: Sequence[Timing]) -> float:
    """Return the processor's shortest time for a task over this one."""
    [other] = rows_where(timings, task=timing.task, size=timing.size, device="cpu")
    return other.shortest / timing.shortest


def _table(timings: Sequence[Timing]) -> PageTable:
    heads = ("task", "on", "size", "median ms", "shortest ms", "calls", "times the processor")
    rows = []
    for timing in timings:
        if timing.task == "decision":
            size = f"{timing.size:,} request{'s' * (timing.size > 1)}"
        else:
            size = f"{timing.rows:,} rows, {timing.size:,} per step"
        times = (f"{timing.median:,.3f}", f"{timing.shortest:,.3f}", f"{timing.calls}")
        rows.append((timing.task, timing.device, size, *times, f"{_gain(timing, timings):.2f}"))
    return PageTable("A Q-ensemble of 5 x [64, 64] over ten boosts", heads, rows, n_text=3)
