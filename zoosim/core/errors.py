"""The errors that zoosim raises on purpose.

ZoosimError
  ConfigError          a configuration, a parameter or a command-line value is refused
    ArgumentError      a call has an argument too many, too few or by a wrong name
  DataError            a file or a table cannot be read or does not hold what it should
  PolicyError          a policy file, class or decision is not usable
    PolicyFailure      a policy failed while it ran: carries the place in the user's file
  ActionError          an action that the environment cannot take
  ObjectiveError       an objective returned what an optimizer cannot use
  OrderError           a call that came out of order (step before reset)
  StoreError           a service cannot read or write its log now
"""

LONGEST = 2_000
"""Characters of a message; files may hold names of any length."""


def one_line(text: str) -> str:
    """Return a text as one line that a terminal prints as it is, whatever names out of files it quotes."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return printable(text)


def printable(text: str) -> str:
    """Return a text without what a terminal would obey, such as colours and titles in names out of files."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _written(char) for char in text)


def _written(char: str) -> str:
    return " " if char.isspace() else char.encode("unicode_escape").decode()


class ZoosimError(Exception):
    """Base of all errors that a user can cause; the message says what came, what was expected, what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class ConfigError(ZoosimError, ValueError):
    """A configuration, a parameter or a command-line value is refused."""


class ArgumentError(ConfigError, TypeError):
    """A call has an argument too many, too few or by a wrong name."""


class DataError(ZoosimError, ValueError):
    """A file or a table cannot be read or does not hold what it should."""


class PolicyError(ZoosimError, TypeError):
    """A policy file, class or decision is not usable."""


class PolicyFailure(PolicyError):
    """A policy failed in a run.

    `seed` and `step` tell where in the run, `place` the file:line in the user's own code (empty when unknown),
    `details` the traceback as text.
    """

    def __init__(self, policy: str, seed: int, step: int, reason: str, place: str = "", details: str = "") -> None:
        super().__init__(policy, seed, step, reason, place, details)
        self.policy = policy
        self.seed = seed
        self.step = step
        self.reason = reason
        self.place = place
        self.details = details

    def named(self, policy: str) -> "PolicyFailure":
        """Return the same failure with the name that the policy has in this run."""
        return PolicyFailure(policy, self.seed, self.step, self.reason, self.place, self.details)

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return one_line(f"policy {self.policy} failed, seed {self.seed}, step {self.step}{where}: {self.reason}")


class WorldError(ZoosimError):
    """A world of the user's own failed, or breaks the contract of worlds."""


class ActionError(ZoosimError, ValueError):
    """An action that the environment cannot take: out of range, or a product that is not available."""


class ObjectiveError(ZoosimError, ValueError):
    """An objective returned what an optimizer cannot use: NaN, infinity, or another shape."""


class OrderError(ZoosimError, RuntimeError):
    """A call that came out of order, such as `step` before `reset`."""


class StoreError(ZoosimError, RuntimeError):
    """A service cannot read or write its log now: a full disk, say; the same call may succeed later."""
