"""Pin the packages that zoosim is tested and deployed with, by hash, and audit what is pinned and what is installed.

    python scripts/pins.py write    resolve pyproject.toml as close to the pins as it allows, and write both files
    python scripts/pins.py audit    hold the files against each other, an index, the Dockerfile and what is installed

To move a package, delete its lines from constraints.txt, or edit its version, and write. An index that holds some files
of a release only, as a mirror may, takes no hash away.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
REQUIREMENTS = ROOT / "deploy" / "requirements.txt"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"

BUILD_TOOLS = ("editables", "hatchling")
"""What builds zoosim, and installs it in place."""

SET_UP_TOOLS = ("uv",)

OF_THE_ENVIRONMENT = {"pip", "setuptools", "wheel"}
"""What a new virtual environment comes with, in the versions of its Python."""

BY_VERSION = "torch"
"""Pinned by its version alone: its build without CUDA is another file, on an index of its own."""

CUDA = ("cuda-", "nvidia-", "triton")
"""How the names of packages begin that torch draws in its build with CUDA alone."""

TITLES = {
    CONSTRAINTS: "The versions that scripts/setup installs, made by `python scripts/pins.py write`",
    REQUIREMENTS: "What deploy/Dockerfile installs, made by `python scripts/pins.py write` from constraints.txt",
}


class Pin(NamedTuple):
    """One version of a package, and the SHA-256 digests of the files that it may be installed from."""

    version: str
    hashes: frozenset[str] = frozenset()


Pins = dict[str, Pin]


class Mismatch(Exception):
    """What an audit found, one line each."""


def read(path: Path) -> Pins:
    """Return the pins of a requirements file.

    Raises:
        Mismatch: a line is not a pin, or a package stands twice.
    """
    pins: Pins = {}
    lines = path.read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        requirement, *options = text.split()
        name, is_pin, version = requirement.partition("==")
        hashes = frozenset(option.removeprefix("--hash=sha256:") for option in options)
        if not is_pin or not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes):
            raise Mismatch(f"{path.name}: got {line.strip()[:80]!r}, expected NAME==VERSION --hash=sha256:DIGEST ...")
        if _plain(name) in pins:
            raise Mismatch(f"{path.name}: {name} is pinned twice")
        pins[_plain(name)] = Pin(version, hashes)
    return pins


def resolve(extras: Iterable[str] | None, tools: Iterable[str], pins: Pins) -> Pins:
    """Return what the project needs with some extras, None for all of them, and tools, within the pins.

    Raises:
        Mismatch: the index cannot be reached, or the pins do not fit the project.
    """
    chosen = ["--all-extras"] if extras is None else [f"--extra={extra}" for extra in extras]
    options = ["--generate-hashes", "--no-annotate", "--no-header", "--no-emit-find-links", "--no-emit-index-url"]
    with TemporaryDirectory() as folder:
        asked, constraints = Path(folder) / "tools.in", Path(folder) / "constraints.txt"
        asked.write_text("\n".join(tools))
        constraints.write_text("".join(f"{name}=={pin.version}\n" for name, pin in pins.items()))
        command = [_uv(), "pip", "compile", "pyproject.toml", str(asked), f"--constraint={constraints}"]
        # 3.11 is the oldest Python that pyproject.toml allows, and the one of the image.
        command += ["--quiet", "--python-version=3.11", *chosen, *options]
        made = subprocess.run(command, cwd=ROOT, env=_settings(), capture_output=True, text=True)
        if made.returncode:
            raise Mismatch(f"the pins cannot be resolved: {' '.join(made.stderr.split())[:500]}")
        resolved = Path(folder) / "resolved.txt"
        resolved.write_text(made.stdout)
        found = read(resolved)
    kept = {name: pin for name, pin in found.items() if not name.startswith(CUDA)}
    if torch := kept.get(BY_VERSION):
        kept[BY_VERSION] = Pin(torch.version.partition("+")[0])
    return kept


def resolve_both(pins: Pins) -> dict[Path, Pins]:
    """Return what each file has to hold."""
    return {
        CONSTRAINTS: resolve(None, (*BUILD_TOOLS, *SET_UP_TOOLS), pins),
        REQUIREMENTS: resolve(["redis"], BUILD_TOOLS, pins),
    }


def write() -> None:
    """Resolve the project anew and write both files."""
    before = read(CONSTRAINTS)
    whole, image = resolve_both(before).values()
    for name, pin in whole.items():
        if name in before and before[name].version == pin.version:
            whole[name] = Pin(pin.version, pin.hashes | before[name].hashes)
    for path, pins in ((CONSTRAINTS, whole), (REQUIREMENTS, {name: whole[name] for name in image})):
        path.write_text("".join(_lines(TITLES[path], pins)))
        print(f"{path.relative_to(ROOT)}: {_counted(pins)}")


def audit() -> None:
    """Print what is pinned; raises `Mismatch` where files, index, image and installed packages do not agree."""
    pins = read(CONSTRAINTS)
    installed = {distribution.name: distribution.version for distribution in distributions()}
    checks = {
        "files": _wrong_files(pins),
        "Dockerfile": wrong_image(DOCKERFILE.read_text()),
        "index": _wrong_resolution(pins),
        "installed": wrong_installed(pins, installed),
    }
    wrong = [f"{check}: {line}" for check, lines in checks.items() for line in lines]
    if wrong:
        raise Mismatch("\n".join(wrong))
    print(f"constraints.txt: {_counted(pins)}")
    print(f"deploy/requirements.txt: {_counted(read(REQUIREMENTS))}, as in constraints.txt")
    print("deploy/Dockerfile: takes nothing else, but zoosim itself")
    print("the index resolves pyproject.toml with all extras to these pins, and its files have these hashes")
    count = sum(_plain(name) in pins for name in installed)
    build = installed.get(BY_VERSION, "of none")
    print(f"installed: {count} packages in the versions pinned; {BY_VERSION} is the build {build}")


def wrong_pins(pins: Pins) -> Iterator[str]:
    """Yield what is wrong with pins by themselves."""
    for name, pin in pins.items():
        if name == BY_VERSION and pin.hashes:
            yield f"{name} has hashes, expected its version alone, since its builds differ"
        if name != BY_VERSION and not pin.hashes:
            yield f"{name}=={pin.version} has no hash"


def wrong_image(dockerfile: str) -> Iterator[str]:
    """Yield what an image would install that is not pinned."""
    commands = re.findall(r"pip install ([^&\n]*)", dockerfile.replace("\\\n", " "))
    if not any("--require-hashes" in command for command in commands):
        yield "nothing is installed with --require-hashes"
    for command in commands:
        if "--require-hashes" not in command and "--no-deps" not in command:
            yield f"pip install {command.strip()} takes dependencies that no hash covers"


def wrong_installed(pins: Pins, installed: dict[str, str]) -> Iterator[str]:
    """Yield what is installed and not pinned, by names and versions."""
    for name, version in sorted(installed.items()):
        plain = _plain(name)
        if plain == "zoosim" or plain in OF_THE_ENVIRONMENT or plain.startswith(CUDA):
            continue
        if plain not in pins:
            yield f"{name} {version} is installed, and not pinned"
        elif version.partition("+")[0] != pins[plain].version:
            yield f"{name} {version} is installed, and {pins[plain].version} pinned; run make setup"


def _wrong_files(pins: Pins) -> Iterator[str]:
    yield from wrong_pins(pins)
    for name, pin in read(REQUIREMENTS).items():
        if pins.get(name) != pin:
            yield f"deploy/requirements.txt has {name} otherwise than constraints.txt; run python scripts/pins.py write"


def _wrong_resolution(pins: Pins) -> Iterator[str]:
    for path, found in resolve_both(pins).items():
        pinned = read(path)
        for name in sorted(found.keys() - pinned.keys()):
            yield f"{path.name} lacks {name} {found[name].version}, which the project needs"
        for name in sorted(pinned.keys() - found.keys()):
            yield f"{path.name} pins {name}, which nothing needs any more"
        for name in sorted(pinned.keys() & found.keys()):
            if name != BY_VERSION and not pinned[name].hashes & found[name].hashes:
                yield f"{name} {pinned[name].version}: the index has no file with a hash of {path.name}"


def _lines(title: str, pins: Pins) -> Iterator[str]:
    yield f"# {title}.\n"
    for name, pin in sorted(pins.items()):
        if name == BY_VERSION:
            yield "# By its version alone: the build without CUDA, which set-up prefers, is another file.\n"
        yield " \\\n    ".join(
            [f"{name}=={pin.version}", *(f"--hash=sha256:{digest}" for digest in sorted(pin.hashes))]
        )
        yield "\n"


def _counted(pins: Pins) -> str:
    hashed = [pin for pin in pins.values() if pin.hashes]
    files = sum(len(pin.hashes) for pin in hashed)
    by_version = f", {BY_VERSION} {pins[BY_VERSION].version} by its version" if BY_VERSION in pins else ""
    return f"{len(hashed)} packages pinned by the hashes of {files:,} files{by_version}"


def _plain(name: str) -> str:
    """Return a package's name as indexes normalise it."""
    return re.sub("[-_.]+", "-", name).lower()


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv") or str(beside)
    if not Path(found).exists():
        raise Mismatch("uv is not installed; run make setup")
    return found


def _settings() -> dict[str, str]:
    """Return the environment with pip's settings as uv's."""
    exports = subprocess.run([sys.executable, str(ROOT / "scripts" / "uv_settings.py")], capture_output=True, text=True)
    settings = (shlex.split(line.removeprefix("export "))[0].partition("=") for line in exports.stdout.splitlines())
    return {**os.environ, **{name: value for name, _, value in settings}}


if __name__ == "__main__":
    commands = {"write": write, "audit": audit}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: python scripts/pins.py {' | '.join(commands)}")
    try:
        commands[sys.argv[1]]()
    except Mismatch as mismatch:
        sys.exit(str(mismatch))
