"""Devices: what is refused and how, cards by name, and no torch unless a card is asked for."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from zoosim.core import devices, extras
from zoosim.core.devices import check_device, find_cards
from zoosim.core.errors import ConfigError
from zoosim.policies.q_ensemble import QEnsembleConfig


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Return a function that lets torch find the cards that it is given, by device."""

    def pretend(names: dict[str, str]) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in names)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: names["cuda"])
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in names)
        monkeypatch.setattr(torch.backends.mps, "get_name", lambda: names["mps"], raising=False)

    return pretend


def test_cards_are_named_as_torch_names_them(cards: Callable[[dict[str, str]], None]) -> None:
    for names in ({}, {"cuda": "NVIDIA H100"}, {"mps": "Apple M2"}, {"cuda": "NVIDIA H100", "mps": "Apple M2"}):
        cards(names)
        assert find_cards() == names
        assert [check_device("device", device) for device in names] == list(names)


def test_a_card_that_is_not_there_is_refused_with_those_that_are(cards: Callable[[dict[str, str]], None]) -> None:
    expected = "got 'cuda', but torch finds no such card here; expected one of: cpu"
    for names, there in (({}, ""), ({"mps": "Apple M2"}, ", mps (Apple M2)")):
        cards(names)
        with pytest.raises(ConfigError) as refused:
            QEnsembleConfig(device="cuda")
        assert str(refused.value) == f"device: {expected}{there}"


@pytest.mark.parametrize("value", ["gpu", "cuda:1", "CPU", "", None, 0, ["cpu"]])
def test_what_is_no_device_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^device: got .*, expected cpu, cuda or mps$"):
        check_device("device", value)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_without_torch_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refused:
        QEnsembleConfig(device=device)
    line = f"device {device}: needs the package torch, which is not installed; run pip install 'zoosim[torch]'"
    assert str(refused.value) == line
    assert QEnsembleConfig(device="cpu").device == "cpu"


def test_without_torch_no_cards_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails then
    assert find_cards() == {}


def test_the_processor_needs_no_torch() -> None:
    line = (
        "import sys; from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor; "
        "QEnsembleRegressor(2, 1, QEnsembleConfig(device='cpu')); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", line], cwd=Path(devices.__file__).parents[2], check=True)
