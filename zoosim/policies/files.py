"""Names of the files of trained policies: models of `zoosim train`, and what `save_policy` wrote."""

MODEL = ".zoosim"

FILES = (MODEL, ".npz")
"""Endings of files of trained policies: models, and those of `save_policy`."""

OF = "@"
"""Separator of the file of a model and the `FILE.py:Class` of its policy, one of the user's own."""


def is_file(policy: str) -> bool:
    """Return whether a policy is named by the file that it was saved in."""
    return policy.endswith(FILES) or any(f"{ending}{OF}" in policy for ending in FILES)


def file_and_class(policy: str) -> tuple[str, str | None]:
    """Return the file that a policy is saved in, and the `FILE.py:Class` behind it where the policy is the user's."""
    for ending in FILES:
        path, of, own = policy.partition(f"{ending}{OF}")
        if of:
            return f"{path}{ending}", own
    return policy, None
