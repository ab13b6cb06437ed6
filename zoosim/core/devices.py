"""The devices that networks can be computed on: the processor, or a graphics card through torch."""

import platform
from typing import Any

from zoosim.core.errors import ConfigError
from zoosim.core.extras import needs_extra
from zoosim.core.parameters import shown

DEVICES = ("cpu", "cuda", "mps")
"""The processor, an NVIDIA or AMD card, and the graphics part of an Apple chip, as torch calls them."""


def find_cards() -> dict[str, str]:
    """Return the names of the graphics cards that torch finds, by device; none where torch is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        return {}
    cards = {}
    if torch.cuda.is_available():
        cards["cuda"] = torch.cuda.get_device_name()
    if torch.backends.mps.is_available():
        # Older versions of torch cannot name it.
        cards["mps"] = getattr(torch.backends.mps, "get_name", platform.processor)()
    return cards


def check_device(label: str, value: Any) -> str:
    """Return a device that networks can be computed on here; torch is imported for a graphics card alone.

    Args:
        label: Name of the setting, for messages.
        value: What was chosen, one of `DEVICES`.

    Raises:
        ConfigError: there is no such device, torch is not installed, or finds no such card.
    """
    if not isinstance(value, str) or value not in DEVICES:
        raise ConfigError(f"{label}: got {shown(value)}, expected cpu, cuda or mps")
    if value == "cpu":
        return value
    needs_extra(f"{label} {value}", "torch")
    cards = find_cards()
    if value not in cards:
        there = ", ".join(["cpu", *(f"{device} ({name})" for device, name in cards.items())])
        raise ConfigError(f"{label}: got {shown(value)}, but torch finds no such card here; expected one of: {there}")
    return value
