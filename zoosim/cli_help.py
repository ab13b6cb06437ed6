"""Texts of `zoosim --help`: the commands by the step at which they are used, and how long they take."""

from typing import Any

from typer.core import TyperGroup

STEPS = {
    "From your table to a log": ("schema", "import"),
    "From a log to a model": ("recommend", "train", "train-retriever", "evaluate"),
    "In production": (
        *("rehearse-launch", "serve", "loops", "deploy", "launch-report", "forecasts", "drift", "export", "forget"),
    ),
    "A simulated shop like yours": ("playground", "fit-world", "run", "report", "tune", "describe", "optimum", "log"),
    "What there is, and what you add": ("list", "policies", "check-policy", "check-world"),
}
"""The commands by what they are for, in the order in which a shop needs them."""

DURATIONS = {
    "schema": "2 s",
    "import": "2 s",
    "recommend": "over 5 min",
    "train": "10 to 70 s",
    "evaluate": "10 s",
    "fit-world": "50 s",
}
"""About how long commands take on 50,000 rows on one core, by the figures that `python -m benchmarks S22` prints."""


class CommandsByStep(TyperGroup):
    """The group of all commands, which lists them by step."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the steps."""
        ordered = [name for names in STEPS.values() for name in names]
        return [*ordered, *(name for name in super().list_commands(ctx) if name not in ordered)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, whose help ends with how long it takes."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and cmd_name in DURATIONS:
            command.epilog = f"Time for 50,000 rows of a log, on one core: {DURATIONS[cmd_name]}."
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section per step, and how long the commands take."""
        width = max(len(name) for names in STEPS.values() for name in names)
        for step, names in STEPS.items():
            rows = []
            for name in names:
                took = f" ({DURATIONS[name]})" if name in DURATIONS else ""
                rows.append((name.ljust(width), _summary(self.get_command(ctx, name)) + took))
            with formatter.section(step):
                formatter.write_dl(rows)
        formatter.write_paragraph()
        formatter.write_text(
            "Times are those for 50,000 rows of a log on one core. The first time takes up to a minute more to compile."
        )


def _summary(command: Any) -> str:
    """Return the first sentence of a command's help."""
    return str(command.help).partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")
