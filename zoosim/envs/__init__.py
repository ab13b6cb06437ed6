"""Gymnasium environments; Gymnasium is told where they are, and imports one when it is made."""

from importlib import import_module

PLACES = {
    "zoosim/Recommendation-v0": (
        "zoosim.envs.recommendation_env:RecommendationEnv",
        "zoosim.envs.recommendation_vector:RecommendationVectorEnv",
    ),
    "zoosim/Search-v0": ("zoosim.envs.search_env:SearchEnv", "zoosim.envs.search_vector:SearchVectorEnv"),
    "zoosim/SearchTemplates-v0": (
        "zoosim.envs.search_env:SearchTemplatesEnv",
        "zoosim.envs.search_vector:SearchTemplatesVectorEnv",
    ),
    "zoosim/Sessions-v0": ("zoosim.envs.sessions_env:SessionsEnv", "zoosim.envs.sessions_vector:SessionsVectorEnv"),
}


def register_envs() -> None:
    """Register every environment that is not registered yet; they check the order of calls themselves.

    Nothing where Gymnasium, of the extra `lab`, is not installed.
    """
    try:
        gymnasium = import_module("gymnasium")
    except ModuleNotFoundError:
        return
    for name, (single, vector) in PLACES.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=single, vector_entry_point=vector, order_enforce=False)
