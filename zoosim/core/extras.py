"""Optional dependencies: which packages each extra of zoosim installs, and one line where one is missing."""

from importlib.util import find_spec

from zoosim.core.errors import ConfigError

EXTRAS = {
    "lab": ("gymnasium", "jinja2", "plotly", "sklearn"),
    "serve": ("apsw", "httptools", "httpx2", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn"),
    "redis": ("hiredis", "redis"),
    "openfeature": ("openfeature",),
    "faiss": ("faiss",),
    "torch": ("torch",),
    "dask": ("distributed",),
    "ray": ("ray",),
    "minari": ("PIL", "gymnasium", "h5py", "minari"),
}
"""The modules that each extra brings, which `pip install zoosim` does not."""


def needs_extra(what: str, extra: str) -> None:
    """Refuse what needs an extra, before anything is computed, where a package of it is missing.

    Args:
        what: What is asked for, such as "run".
        extra: The name of the extra, a key of `EXTRAS`.

    Raises:
        ConfigError: the package is not installed.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise ConfigError(f"{what}: {_advice(module, extra)}")


class MissingExtraError(ConfigError, AttributeError):
    """A public name needs an extra that is not installed; `hasattr` says that it is not there."""


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """Return the error that says which extra to install; None where the module is of none, or a part of one is missing.

    Of a package that is installed a part is missing where its version is another than zoosim or a user's code expects.
    """
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules and find_spec(module) is None:
            return MissingExtraError(_advice(module, extra))
    return None


def _advice(module: str, extra: str) -> str:
    return f"needs the package {module}, which is not installed; run pip install 'zoosim[{extra}]'"
