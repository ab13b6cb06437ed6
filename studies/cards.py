"""Which graphics card a study was measured on, in a sentence for its page."""

from collections.abc import Iterable

NO_CARD = "No CUDA or MPS device was found: not measured on a graphics card."


def card_sentence(devices: Iterable[str]) -> str:
    """Name the graphics cards among the `devices` of measurements, which are "cpu" or the name of a card."""
    cards = sorted(set(devices) - {"cpu"})
    return f"The graphics card is {' and '.join(cards)}." if cards else NO_CARD
