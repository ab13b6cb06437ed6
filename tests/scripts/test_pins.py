"""What is pinned by hash, and what an image may install."""

from pathlib import Path

import pytest

from scripts import pins
from scripts.pins import Mismatch, Pin

DIGEST = "ab" * 32
OTHER = "cd" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "constraints.txt"


def test_every_package_is_pinned_by_hash_and_torch_by_its_version() -> None:
    constraints = pins.read(pins.CONSTRAINTS)
    assert not list(pins.wrong_pins(constraints))
    assert not constraints["torch"].hashes
    assert list(pins.wrong_pins({"idna": Pin("3"), "torch": Pin("2", frozenset([DIGEST]))})) == [
        "idna==3 has no hash",
        "torch has hashes, expected its version alone, since its builds differ",
    ]


def test_the_image_installs_what_the_tests_run_with() -> None:
    constraints, requirements = pins.read(pins.CONSTRAINTS), pins.read(pins.REQUIREMENTS)
    assert requirements.items() <= constraints.items()
    assert {"numpy", "numba", "redis", "hatchling"} <= requirements.keys()
    assert not list(pins.wrong_image(pins.DOCKERFILE.read_text()))


@pytest.mark.parametrize(
    ("dockerfile", "wrong"),
    [
        (
            "RUN pip install '.[redis]' && useradd zoosim",
            "pip install '.[redis]' takes dependencies that no hash covers",
        ),
        ("RUN pip install --no-deps .", "nothing is installed with --require-hashes"),
        ("RUN pip install --require-hashes -r r.txt\nRUN pip install \\\n  torch", "pip install torch takes depend"),
    ],
)
def test_an_image_that_installs_more_is_found(dockerfile: str, wrong: str) -> None:
    assert any(" ".join(line.split()).startswith(wrong) for line in pins.wrong_image(dockerfile))


def test_what_is_installed_is_held_against_the_pins() -> None:
    pinned = {"typing-extensions": Pin("4.1"), "torch": Pin("2.13.0"), "not-installed": Pin("1")}
    installed = {"zoosim": "0.1.0", "pip": "1", "torch": "2.13.0+cpu", "Typing_Extensions": "4.1"}
    assert not list(pins.wrong_installed(pinned, installed))
    assert list(pins.wrong_installed(pinned, {"torch": "2.12.0", "idna": "3"})) == [
        "idna 3 is installed, and not pinned",
        "torch 2.12.0 is installed, and 2.13.0 pinned; run make setup",
    ]


def test_pins_are_read(path: Path) -> None:
    path.write_text(
        f"# a comment\nA.b==1 \\\n    --hash=sha256:{DIGEST} \\\n    --hash=sha256:{OTHER}\n\ntorch==2  # by version\n"
    )
    assert pins.read(path) == {"a-b": Pin("1", frozenset([DIGEST, OTHER])), "torch": Pin("2")}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("idna>=3", "got 'idna>=3', expected NAME==VERSION"),
        ("idna==3 --hash=md5:12", "got 'idna==3 --hash=md5:12', expected"),
        ("a-b==1\nA_b==2", "A_b is pinned twice"),
    ],
)
def test_a_line_that_is_no_pin_is_refused(path: Path, text: str, wrong: str) -> None:
    path.write_text(text)
    with pytest.raises(Mismatch, match=wrong):
        pins.read(path)
