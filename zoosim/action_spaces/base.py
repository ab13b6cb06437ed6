"""The contract of an action space."""

from abc import ABC, abstractmethod
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, ClassVar

import numpy as np

from zoosim.core.types import Context, PolicySpec
from zoosim.policies.base import Policy


class Part:
    """A class or function of an action space that is imported when it is asked for, from its place `module:name`.

    A part belongs to a package that itself asks for action spaces, or is large: most commands need few of them. It is
    looked up once, as a service asks for some of them at each request.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    @cached_property
    def _found(self) -> Any:
        return resolve_name(self._place)

    def __get__(self, space: Any, owner: type) -> Any:
        return self._found


class ActionSpace(ABC):
    """The kind of action that a decision takes, and all that depends on it: nothing else asks which it is.

    The attributes whose default is None are parts: classes, or functions, which are set as a `staticmethod` or by a
    `Part`, or are properties that return them. What needs a part that is None refuses the action space.
    """

    name: ClassVar[str]
    """The word by which worlds, logs and policies name it."""

    chosen_by: ClassVar[str] = ""
    """The word in `Policy.chooses` of the policies that can choose in it; its own name when left empty."""

    column: ClassVar[str] = "action"
    """The column that holds the actions in the rows of a run."""

    context_fields: ClassVar[tuple[str, ...]]
    """Fields of a context; see `zoosim.Context`."""

    has_catalogue: ClassVar[bool] = True
    """True where actions are made of products, which a table beside the log describes."""

    shows_several: ClassVar[bool] = False
    """True where a visit is shown several products, each in a row of the log."""

    is_played: ClassVar[bool] = True
    """True where worlds can take its actions; the others are of logs alone."""

    oracle_is_best: ClassVar[bool] = True
    """True where no action can earn more in expectation than what a world calls its best one."""

    experiment: ClassVar[str] = ""
    """An experiment in whose world its actions can be taken: where policies are compared and logs are written."""

    contenders: ClassVar[tuple[str, ...]] = ("random",)
    """The policies that compete in a world of a user's own, where none are named."""

    contenders_for_clicks: ClassVar[tuple[str, ...]] = ()
    """Those that do where rewards lie from 0 to 1, if they are others."""

    records: Any = None
    """The class that reads its decisions from the columns of a log (`zoosim.logs.records.Records`); None for one that
    is logged as another action space."""

    evaluator: Any = None
    """The class that evaluates policies on its logs (`zoosim.off_policy.actions.base.ActionSpaceEvaluator`)."""

    train: Any = None
    """The function that trains models on a log, with the arguments of `zoosim.api.models.train_candidates`; None
    where none can be."""

    import_table: Any = None
    """The function that makes a log of a shop's table, with the arguments of `zoosim.import_log`."""

    describes_table: Any = None
    """The function of a schema that says whether it is of a table for this action space; None for products, which all
    other schemas are of."""

    fit_world: Any = None
    """The function that fits a world to a log, with the arguments of `zoosim.fit_world`."""

    print_fit: Any = None
    """The function of what `fit_world` returned and of its folder that prints that."""

    rehearse_instead: ClassVar[str] = ""
    """Advice, beginning with what its logs are, where `zoosim recommend` is asked about one."""

    recognises: Any = None
    """The function of a path that says whether a file is a log of this action space; None where no file tells."""

    logged_choices: Any = None
    """The function of a world and a block of its visits that returns the columns of a log that say what was chosen;
    None where its visits cannot be logged."""

    model: Any = None
    """The class of trained models (`zoosim.policies.model.Model`); None where none can be trained."""

    endpoint: Any = None
    """Handling of requests by a service (`zoosim.serving.endpoints.base.Endpoint`); None where none decides in it."""

    learning: Any = None
    """Learning of a service's model from its log (`zoosim.serving.learning.base.Learning`)."""

    scoring: Any = None
    """How forecasts are scored by a service's decisions (`zoosim.serving.forecasts.scoring.Scoring`); None where none
    are."""

    training_columns: Any = None
    """The function of a training and of how much its policy uses each column, that returns the table of a page which
    says what policies see."""

    def accepts(self, policy_class: type[Policy]) -> bool:
        """Return whether policies of a class can choose in it."""
        return (self.chosen_by or self.name) in policy_class.chooses

    @abstractmethod
    def empty(self, steps: int, spec: PolicySpec) -> Any:
        """Return an array for the actions of a run of so many steps."""

    @abstractmethod
    def checked(self, action: Any, context: Context, spec: PolicySpec) -> Any:
        """Return what `select_action` returned as an action; raises `ValueError` for what is none."""

    @abstractmethod
    def choose(self, policy: Policy, context: Context, spec: PolicySpec) -> tuple[Any, float]:
        """Return the action that a policy selects, and its propensity.

        Raises:
            ValueError: what it chose is no action, or its propensities are none.
            PolicyError: it gives no density where one is needed.
        """

    def choose_logged(self, policy: Policy, context: Context, spec: PolicySpec) -> tuple[Any, float, Context]:
        """Return what `choose` does, and what a log keeps of the context."""
        action, propensity = self.choose(policy, context, spec)
        return action, propensity, self.logged(context)

    @abstractmethod
    def any_action(self, context: Context, spec: PolicySpec, *, rng: np.random.Generator) -> Any:
        """Return an action that can be taken at a visit, drawn uniformly."""

    @abstractmethod
    def logged(self, context: Context) -> Context:
        """Return what a log keeps of a context, without the large arrays."""

    def refuse_unlogged(self, name: str, policy_class: type[Policy]) -> None:
        """Refuse a policy of that name and class that cannot say how likely its actions are, so that no log can.

        Raises:
            PolicyError: it cannot.
        """
        return
