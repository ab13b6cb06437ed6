"""The memory that is left, so that what cannot fit is refused in one line before anything is allocated."""

from pathlib import Path

from zoosim.core.errors import ConfigError

GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
"""Files in which Linux says how much memory a container may use and does, in its two versions."""

GIGABYTE = 1_000_000_000


def available_memory() -> float:
    """Return how many bytes this process can still allocate, by machine, container and `ulimit -v`."""
    # A container sees the memory of the whole machine in /proc/meminfo; what it may use itself only its group says.
    return min([_free_on_machine(), _free_in_address_space(), *(_free_in_group(*files) for files in GROUPS)])


def check_memory(n_bytes: float, what: str, advice: str) -> None:
    """Raise `ConfigError` for `what` needs more bytes than are left; `advice` says what to do."""
    available = available_memory()
    if n_bytes > available:
        raise ConfigError(f"{what}: needs {gigabytes(n_bytes)} of memory, {gigabytes(available)} are left; {advice}")


def gigabytes(n_bytes: float) -> str:
    """Return a size in words."""
    return f"{n_bytes / GIGABYTE:,.1f} GB"


def _free_on_machine() -> float:
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable")


def _free_in_address_space() -> float:
    try:
        import resource
    except ImportError:  # Windows, which has no such limits
        return float("inf")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return float("inf")
    return max(0.0, limit - _kilobytes(Path("/proc/self/status"), "VmSize"))


def _free_in_group(limit: Path, used: Path) -> float:
    try:
        return max(0.0, float(limit.read_text()) - float(used.read_text()))
    except (OSError, ValueError):  # no such group, or no limit ("max")
        return float("inf")


def _kilobytes(file: Path, key: str) -> float:
    """Return a figure of the kernel's in bytes; infinity where there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return float("inf")
    figures = [line.split()[1] for line in lines if line.startswith(f"{key}:")]
    return 1024.0 * float(figures[0]) if figures else float("inf")
