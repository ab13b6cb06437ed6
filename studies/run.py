"""Do a study, and write what it found."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.study import FLAGS, STUDIES, Study
from zoosim.api.logs import writable_folder
from zoosim.core.errors import ConfigError
from zoosim.core.files import write_text
from zoosim.core.parameters import unknown
from zoosim.core.types import Progress
from zoosim.report.sections import Page, render_sections


@dataclass(frozen=True)
class StudyResult:
    """A finished study: what was measured, one record per `row`; its `page`; and the folder, `path`."""

    study: Study
    rows: Sequence[Any]
    page: Page
    path: Path


def run_study(
    name: str, out: str | os.PathLike[str] | None = None, *, progress: Progress = lambda line: None, **options: Any
) -> StudyResult:
    """Do a study, such as "cem-optima", and write summary.json and report.html to the folder `out`, runs/NAME if none.

    `options` are those of the study's `measure`. Raises `ConfigError` when there is no such study or option, or `out`
    cannot be written or holds a run of policies.
    """
    study = STUDIES.get(name)
    if study is None:
        raise ConfigError(unknown("unknown study", name, STUDIES))
    taken = study.options()
    for key in options:
        if key not in taken:
            told = ", ".join([*(_flag(option, "VALUE") for option in taken), "--out"])
            raise ConfigError(f"{name}: takes {told} and --json alone; leave {key} out")
    folder = writable_folder(f"runs/{name}" if out is None else out)
    module = study.load()
    rows = module.measure(progress=progress, **options)
    page = module.build_page(rows)
    summary = {"schema_version": 1, "study": name, "verdict": page.verdict, "rows": [asdict(row) for row in rows]}
    write_text(folder / "summary.json", json.dumps(summary, indent=1, allow_nan=False) + "\n")
    command = _command(name, folder, options)
    write_text(folder / "report.html", render_sections(name, study.question, page, command))
    return StudyResult(study, rows, page, folder)


def _command(name: str, folder: Path, options: Mapping[str, Any]) -> list[str]:
    """Say how to do a study again, as far as the command line can."""
    flags = [_flag(key, "config.yaml" if isinstance(value, Mapping) else value) for key, value in options.items()]
    chosen = [word for flag in flags for word in flag.split(" ", 1)]
    return ["python", "-m", "studies", name, *chosen, "--out", str(folder)]


def _flag(key: str, value: object) -> str:
    return f"--{key} {value}" if key in FLAGS else f"--set {key}={value}"
