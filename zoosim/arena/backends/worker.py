"""A worker of an executor, perhaps on another machine: it compares its code, unpacks what was sent, and returns bytes.

Nothing of a run needs to lie on the worker's disk beside zoosim itself. What tasks read comes with them, and is kept in
a temporary folder for as long as the worker lives.
"""

import atexit
import importlib
import pickle
import shutil
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NamedTuple

from zoosim.arena.backends import Work
from zoosim.core.blame import reason_of
from zoosim.core.digests import content_digest
from zoosim.core.files import sent_files, temporary_folder
from zoosim.core.sources import package_digest
from zoosim.core.version import VERSION

LIBRARIES = ("numba", "numpy", "polars", "scipy")
"""Packages whose versions may change the bits of results."""

PARCELS = 4
"""Most parcels whose files a worker keeps."""

_one_at_a_time = threading.Lock()
"""Held while a task is computed: the working directory, warnings and the threads of BLAS are the whole process's."""

_parcels: dict[str, tuple[Work[Any, Any], Mapping[str, Path]]] = {}
_cleaning = ExitStack()
atexit.register(_cleaning.close)


class Answer(NamedTuple):
    """What a worker answers: a task's result, or the error that ended it, or why the worker cannot compute it.

    `reports` are what the task told of on its way.
    """

    result: Any = None
    error: Exception | None = None
    refusal: str = ""
    reports: tuple[tuple[Any, ...], ...] = ()


class Parcel(NamedTuple):
    """What all tasks of a run share: the work, and files as (what tasks call one, its whole path, its content)."""

    work: Work[Any, Any]
    files: tuple[tuple[str, str, bytes], ...]


@cache
def versions() -> dict[str, str]:
    """Return what decides the bits of results on this machine: code and versions, by name."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    ours = {"zoosim": VERSION, "zoosim code": package_digest(), "Python": python}
    return ours | {name: version(name) for name in LIBRARIES}


versions()  # now, and not when the first task comes: the files may be edited while the process lives


def answer(expected: Mapping[str, str], parcel: bytes = b"", task: bytes = b"") -> bytes:
    """Return a pickled `Answer` to a task; it raises nothing, so that what an executor raises is its own.

    Args:
        expected: The `versions` of the machine that sent it.
        parcel: A pickled `Parcel`; empty for a greeting, which asks for the versions alone.
        task: The pickled task.
    """
    for name, text in expected.items():
        here = versions().get(name)
        if here != text:
            return _written(Answer(refusal=f"has {name} {here}, expected {text} as here; install the same on both"))
    if not parcel:
        return _written(Answer())
    with _one_at_a_time:
        return _written(_computed(parcel, task))


def _computed(parcel: bytes, task: bytes) -> Answer:
    try:
        work, places = _unpacked(parcel)
        unpacked_task = pickle.loads(task)
    except Exception as error:
        return Answer(refusal=f"cannot read what was sent ({reason_of(error)}); give your classes as FILE.py:Class")
    reports: list[tuple[Any, ...]] = []
    with sent_files(places):
        try:
            fault = work.fault(unpacked_task)
            if fault:
                return Answer(refusal=fault)
            result = work.compute(unpacked_task, lambda *line: reports.append(line))
        except Exception as error:
            error.add_note(f"on {socket.gethostname()}:\n{traceback.format_exc()}")
            return Answer(error=error, reports=tuple(reports))
    return Answer(result, reports=tuple(reports))


def _written(answer: Answer) -> bytes:
    try:
        content = pickle.dumps(answer)
        pickle.loads(content)  # an error may be written that cannot be read
    except Exception:
        content = pickle.dumps(Answer(error=RuntimeError(reason_of(answer.error or RuntimeError("no result")))))
    return content


def _unpacked(parcel: bytes) -> tuple[Work[Any, Any], Mapping[str, Path]]:
    """Return the work of a parcel, and where the files lie here that came with it."""
    digest = content_digest(parcel)
    root = _folder() / digest
    if digest not in _parcels:
        for oldest in list(_parcels)[: max(0, len(_parcels) + 1 - PARCELS)]:
            del _parcels[oldest]
            shutil.rmtree(_folder() / oldest, ignore_errors=True)
        work, files = pickle.loads(parcel)
        places = {}
        for name, path, content in files:
            places[name] = root.joinpath(*Path(path).parts[1:])
            places[name].parent.mkdir(parents=True, exist_ok=True)
            places[name].write_bytes(content)
        _parcels[digest] = work, places
    _forget_modules_outside(root)
    return _parcels[digest]


@cache
def _folder() -> Path:
    return _cleaning.enter_context(temporary_folder(Path(gettempdir()), "zoosim-sent"))


def _forget_modules_outside(root: Path) -> None:
    """Forget modules that came with other parcels: an edited file's helper would be taken for the new one."""
    sent, ours = f"{_folder()}/", f"{root}/"
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(sent) and not str(module.__file__).startswith(ours):
            del sys.modules[name]
    sys.path[:] = [path for path in sys.path if not path.startswith(sent) or path.startswith(ours)]
    importlib.invalidate_caches()
