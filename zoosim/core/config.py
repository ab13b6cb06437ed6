"""The configuration of a recommendation world, checked when it is made, and how configurations are read and merged.

Defaults are the shop of 50 products with 4 personas and 5 categories; every figure of it is data.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from zoosim.core.errors import ConfigError
from zoosim.core.files import read_text
from zoosim.core.parameters import shown, unknown
from zoosim.core.yaml_text import MOST_BYTES, parse_yaml

Probability = Annotated[float, Field(ge=0, le=1)]
Table = dict[str, dict[str, Probability]]

PERSONAS: Table = {
    "new_puppy_parent": {"Fish Supplies": 0.02, "Cat Food": 0.10, "Dog Food": 0.40, "Dog Toy": 0.50, "Cat Toy": 0.05},
    "cat_connoisseur": {"Fish Supplies": 0.05, "Cat Food": 0.55, "Dog Food": 0.05, "Dog Toy": 0.02, "Cat Toy": 0.45},
    "budget_shopper": {"Fish Supplies": 0.20, "Cat Food": 0.40, "Dog Food": 0.25, "Dog Toy": 0.15, "Cat Toy": 0.20},
    "fish_hobbyist": {"Fish Supplies": 0.60, "Cat Food": 0.10, "Dog Food": 0.02, "Dog Toy": 0.02, "Cat Toy": 0.08},
}
MOST_NUMBERS = 1_000_000_000
"""The most features that users and products have in all, at 8 bytes each."""

UNLISTED = 0.01
"""Click probability of a category that a persona's row leaves out."""


def check_known(label: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise `ValueError` at the first of `names` that is not `known`."""
    for name in names:
        if name not in known:
            raise ValueError(unknown(label, name, list(known)))


def check_shares(label: str, shares: Iterable[float]) -> None:
    """Raise `ValueError` unless shares add up to 1."""
    total = sum(shares)
    if abs(total - 1) > 1e-6:
        raise ValueError(f"{label}: shares add up to {total:g}, expected 1")


def _without_empty_rows(table: Table) -> Table:
    empty = [name for name, row in table.items() if not row]
    if empty:
        raise ValueError(f"persona {empty[0]!r} has no categories; give at least one click probability")
    return table


ClickTable = Annotated[Table, Field(min_length=1), AfterValidator(_without_empty_rows)]


class Strict(BaseModel):
    """Base of all configuration records: frozen, exact types, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Shock(Strict):
    """From a visitor on, the listed personas click the listed categories with other probabilities."""

    step: int = Field(ge=1, description="the visit from which on it applies, before the end of the run")
    name: str = Field(min_length=1, description="what pages call it; each shock has its own")
    set: ClickTable = Field(description="persona -> category -> new click probability")


def check_shocks(shocks: Sequence[Shock], personas: Collection[str], categories: Collection[str]) -> None:
    """Raise `ValueError` for shocks of the same name, of unknown ones, or two at a step that set the same.

    Args:
        shocks: The changes of click probabilities.
        personas, categories: Those that the shop has.
    """
    names = [shock.name for shock in shocks]
    if len(set(names)) < len(names):
        raise ValueError(f"two shocks are called {max(names, key=names.count)!r}; give each its own name")
    cells: set[tuple[int, str, str]] = set()
    for shock in shocks:
        check_known(f"shock {shock.name!r}: unknown persona", shock.set, personas)
        for persona, row in shock.set.items():
            check_known(f"shock {shock.name!r}: unknown category", row, categories)
            for category in row:
                if (shock.step, persona, category) in cells:
                    raise ValueError(f"two shocks at step {shock.step} set {persona} x {category}; keep one")
                cells.add((shock.step, persona, category))


class Availability(Strict):
    """A change of what may be shown.

    `appear` puts products on sale (one whose first event is `appear` is not for sale before); `vanish` takes them away;
    `run-out` takes them away for a time.
    """

    step: int = Field(ge=0, description="the visit from which on it applies")
    change: Literal["appear", "vanish", "run-out"] = Field(description="what happens to the products")
    products: list[Annotated[int, Field(ge=0)]] = Field([], description="the products by index; or give `category`")
    category: str | None = Field(None, description="all products of a category; or give `products`")
    until: int | None = Field(None, description="the visit from which on they are back; with `run-out` only")

    @model_validator(mode="after")
    def _consistent(self) -> "Availability":
        if bool(self.products) == (self.category is not None):
            raise ValueError("give either products (a list of indices) or a category")
        if (self.until is not None) != (self.change == "run-out"):
            raise ValueError("until belongs to run-out, and run-out needs it")
        if self.until is not None and self.until <= self.step:
            raise ValueError(f"until is {self.until}, expected a step after {self.step}")
        return self


class NoiseFeatures(Strict):
    """Numbers of meaningless features appended to each vector."""

    user: int = Field(0, ge=0, le=1000, description="features N(0, .25) without meaning, fixed for each user")
    product: int = Field(0, ge=0, le=1000, description="the same for each product")


class RandomShocks(Strict):
    """Ask for shocks drawn at random, in place of a written schedule."""

    count: int = Field(ge=1, description="how many")
    seed: int | str = Field(
        0, description="seed of their draw, 0 or more, for all worlds; each: every world draws its own"
    )
    over: Annotated[int, Field(ge=1)] | None = Field(
        None, description="visits that they are spread over; none: the length of the run"
    )

    @field_validator("seed", mode="before")
    @classmethod
    def _a_number_or_each(cls, seed: Any) -> Any:
        number = isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0
        if not number and not (isinstance(seed, str) and seed == "each"):
            raise ValueError(f"got {shown(seed)}, expected a whole number of at least 0, or each")
        return seed


class Turnover(Strict):
    """Replace products by new ones of the same categories, again and again."""

    share: float = Field(gt=0, le=1, description="share of the products that leave each time")
    every: int = Field(ge=1, description="visits from one time to the next")
    over: Annotated[int, Field(ge=1)] | None = Field(
        None, description="visits in which that happens; none: the length of the run"
    )


class RandomPersonas(Strict):
    """Ask for a table of click probabilities that each world draws anew: Beta(.7, 2) cut to [.01, .9]."""

    personas: int = Field(ge=1, le=1_000, description="how many personas")
    categories: int = Field(ge=1, le=1_000, description="how many categories")

    def names(self) -> Table:
        """Return personas and categories by name, "persona 1" and "category 1" first; the figures mean nothing."""
        row = {f"category {n}": UNLISTED for n in range(1, self.categories + 1)}
        return {f"persona {n}": row for n in range(1, self.personas + 1)}


class EnvConfig(Strict):
    """A recommendation world: who visits, what is for sale, who clicks what, and when that changes."""

    n_products: int = Field(50, ge=1, le=100_000, description="products, dealt to the categories as evenly as can be")
    n_users: int = Field(1_000, ge=1, le=10_000_000, description="users; each visit is a uniform draw of one")
    personas: ClickTable = Field(
        PERSONAS, description="persona -> category -> click probability; .01 where a category is left out"
    )
    random_personas: RandomPersonas | None = Field(
        None, description="click tables that each world draws anew; give this or `personas`"
    )
    persona_mix: dict[str, Probability] | None = Field(
        None, description="persona -> share of the users, adding up to 1; one left out has none; none: uniform"
    )
    category_sizes: dict[str, Annotated[int, Field(ge=0)]] | None = Field(
        None, description="category -> how many products, adding up to `n_products`; one left out has none; none: even"
    )
    noise_features: NoiseFeatures = NoiseFeatures()
    shocks: list[Shock] = Field([], description="changes of the click probabilities")
    random_shocks: RandomShocks | None = Field(None, description="shocks drawn at random; give this or `shocks`")
    availability: list[Availability] = Field([], description="changes of what is on sale")
    turnover: Turnover | None = Field(
        None, description="new products that replace old ones; not together with `availability`"
    )

    @property
    def categories(self) -> list[str]:
        """List the categories, in the order in which the personas name them first."""
        categories: dict[str, float] = {}
        for row in self.personas.values():
            categories.update(row)
        return list(categories)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, values: Any) -> Any:
        """Name the personas that are drawn at random."""
        drawn = values.get("random_personas") if isinstance(values, dict) else None
        if drawn is None:
            return values
        try:
            names = RandomPersonas.model_validate(drawn).names()
        except ValidationError:
            return values  # the field's own check tells what is wrong
        if values.get("personas", names) != names:
            raise ValueError("give personas or random_personas, not both")
        return {**values, "personas": names}

    @model_validator(mode="after")
    def _fits_together(self) -> "EnvConfig":
        self._check_mix()
        self._check_sizes()
        check_shocks(self.shocks, self.personas, self.categories)
        if self.turnover and self.availability:
            raise ValueError("give availability or turnover, not both: events name products by index")
        if self.shocks and self.random_shocks:
            raise ValueError("give shocks or random_shocks, not both")
        self._check_availability()
        self._check_features()
        return self

    def _check_features(self) -> None:
        """Refuse tables of features that no machine holds."""
        user_numbers = self.n_users * (len(self.personas) + self.noise_features.user)
        product_numbers = self.n_products * (len(self.categories) + self.noise_features.product)
        if user_numbers + product_numbers > MOST_NUMBERS:
            raise ValueError(
                f"users and products have {user_numbers + product_numbers:,} features in all, expected at most "
                f"{MOST_NUMBERS:,}; take fewer users, or fewer noise_features"
            )

    def _check_mix(self) -> None:
        if self.persona_mix is None:
            return
        check_known("persona_mix: unknown persona", self.persona_mix, self.personas)
        check_shares("persona_mix", self.persona_mix.values())

    def _check_sizes(self) -> None:
        if self.category_sizes is None:
            return
        check_known("category_sizes: unknown category", self.category_sizes, self.categories)
        total = sum(self.category_sizes.values())
        if total != self.n_products:
            raise ValueError(f"category_sizes: add up to {total}, expected n_products, {self.n_products}")

    def _check_availability(self) -> None:
        for event in self.availability:
            if event.category is not None:
                check_known("availability: unknown category", [event.category], self.categories)
            if any(product >= self.n_products for product in event.products):
                last = self.n_products - 1
                raise ValueError(f"availability: no product {max(event.products)}; products are 0 to {last}")


class LabelledConfig(Strict):
    """A labelled table as a bandit: one product per class, reward 1 for the right one."""

    data: str | None = Field(
        None, description="a CSV or Parquet table, also `--data FILE`; none: scikit-learn's handwritten digits"
    )
    label: str = Field("label", description="its column with the classes, 2 to 1,000 of them; also `--label COLUMN`")
    repeat: bool = Field(False, description="whether rows come back, in further shuffled passes; else each comes once")


def build(cls: type[BaseModel], values: Mapping[str, Any], label: str) -> Any:
    """Make `cls` from `values`, or raise `ConfigError` with one line: the field, what came, what was expected."""
    try:
        return cls.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(" ".join(_one_line(error, label, cls).split())) from None
    except UnicodeEncodeError as error:
        raise ConfigError(f"{label}: got {shown(error.object)}, expected text that UTF-8 can write") from None


def _one_line(error: ValidationError, label: str, cls: type[BaseModel]) -> str:
    first = error.errors()[0]
    keys = [str(key) for key in first["loc"]]
    path = ".".join([label, *keys])
    if first["type"] == "extra_forbidden" and len(keys) == 1:
        return unknown(f"{label}: unknown key", keys[0], list(cls.model_fields))
    if first["type"] == "extra_forbidden":
        return f"{path}: unknown key {shown(keys[-1])}; remove it or mend its name"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{path}: {message}"
    if first["type"] == "missing":
        return f"{path}: missing; give it a value"
    if first["type"] == "model_type":
        record_class = _record_in(cls, first["ctx"]["class_name"])
        return f"{path}: got {shown(first['input'])}, expected keys with values: {', '.join(record_class.model_fields)}"
    if first["type"] in ("too_short", "too_long"):
        limits = first["ctx"]
        bound = f"at least {limits['min_length']:,}" if "min_length" in limits else f"at most {limits['max_length']:,}"
        return f"{path}: got {shown(first['input'])}, expected {bound} items, not {len(first['input']):,}"
    expected = _expected(first["type"], message)
    if keys[-1] == "[key]":
        # The name itself stands before that; it may be anything, so that a path of it would mislead.
        return f"{'.'.join([label, *keys[:-2]])}: got the name {shown(first['input'])}, {expected}"
    return f"{path}: got {shown(first['input'])}, {expected}"


def _expected(kind: str, message: str) -> str:
    """Return what a value should have been, of a kind of error and pydantic's message about it."""
    if kind == "dict_type":
        return "expected names with values, such as {name: value}"
    if kind == "string_type":
        return "expected text; put it in quotes"
    if kind == "string_unicode":
        return "expected text that UTF-8 can write"
    for beginning in ("Input should be ", "String should have "):
        if message.startswith(beginning):
            return f"expected {message.removeprefix(beginning)}"
    return message[0].lower() + message[1:]


def _record_in(cls: type[BaseModel], name: str) -> type[BaseModel]:
    """Return the class of this name that a class is, or its fields hold: other classes may have the same name."""
    waiting: list[Any] = [cls]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if kind.__name__ == name:
                return kind
            waiting += [field.annotation for field in kind.model_fields.values()]
        waiting += get_args(kind)
    raise LookupError(f"{cls.__name__} holds no {name}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, or raise `ConfigError` naming the file and the line."""
    try:
        values = parse_yaml(read_text(path, MOST_BYTES))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the path of a YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read as UTF-8 text ({reason}); give the path of a YAML file") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds a {type(values).__name__}, expected keys with values")
    return values


def read_config(path: Path) -> dict[str, Any]:
    """Read the YAML file of a run or a world; the tables that its `env` names are found from the file's folder on."""
    values = read_yaml(path)
    env = values.get("env")
    if not isinstance(env, Mapping):
        return values
    return {**values, "env": with_tables(env, path.parent)}


def with_tables(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings whose tables, the values of keys that end in `_file`, are paths from a folder on."""
    tables = {key: value for key, value in values.items() if str(key).endswith("_file") and isinstance(value, str)}
    paths = {key: str(folder / value) for key, value in tables.items() if value}
    return {**values, **paths}


def read_setting(text: str) -> tuple[list[str], Any]:
    """Split `a.b=c` into its path and its value, the value read as YAML."""
    if not isinstance(text, str):
        raise ConfigError(f"--set: got {shown(text)}, expected PATH=VALUE, such as env.n_products=500")
    path, equals, value = text.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts):
        raise ConfigError(f"--set: got {shown(text)}, expected PATH=VALUE, such as env.n_products=500")
    try:
        return parts, parse_yaml(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"--set {path}: cannot read the value {shown(value)}; write it as in YAML") from None


def read_parameters(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the parameters of policies, by name, that texts such as `policies.linucb.alpha=.5` give."""
    parameters: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, value = read_setting(text)
        if len(path) != 3 or path[0] != "policies":
            raise ConfigError(
                f"--set: got {'.'.join(path)}, expected policies.NAME.KEY, such as policies.linucb.alpha=.5"
            )
        parameters.setdefault(path[1], {})[path[2]] = value
    return parameters
