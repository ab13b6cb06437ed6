"""`zoosim run continuous-vs-discrete`: measure, and write summary.json and report.html."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoosim.api.logs import writable_folder
from zoosim.core.errors import ConfigError
from zoosim.core.types import Progress
from zoosim.experiments import CONTINUOUS_VS_DISCRETE as NAME
from zoosim.report.sections import Story, write_story
from zoosim.studies.continuous_vs_discrete.courses import measure
from zoosim.studies.continuous_vs_discrete.records import Reached, Way
from zoosim.studies.continuous_vs_discrete.story import tell

QUESTION = "Do continuous boosts beat templates, by how much, and after how many visits?"
FLAGS = {"seeds": "--seeds ", "jobs": "--jobs ", "visits": "--set visits=", "laws": "--set laws="}
"""How the command line takes each option."""


def run(
    out: str | os.PathLike[str] | None = None, *, progress: Progress = lambda line: None, **options: Any
) -> tuple[Sequence[Reached | Way], Story, Path]:
    """Return the rows, their story, and the folder that holds both, `out` or runs/continuous-vs-discrete.

    `options` are those of `measure`. Raises `ConfigError` for another option, or a folder that cannot be written.
    """
    for key in options:
        if key not in FLAGS:
            taken = ", ".join(f"{flag}VALUE".strip() for flag in FLAGS.values())
            raise ConfigError(f"{NAME}: takes {taken}, --out, --json and --debug alone; leave --{key} out")
    folder = writable_folder(f"runs/{NAME}" if out is None else out)
    rows = measure(progress=progress, **options)
    story = tell(rows)
    chosen = "".join(f" {FLAGS[key]}{value}" for key, value in options.items())
    write_story(folder, NAME, QUESTION, rows, story, f"zoosim run {NAME}{chosen} --out {folder}")
    return rows, story, folder
