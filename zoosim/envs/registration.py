"""Tell Gymnasium where the environments are, without importing them."""

import gymnasium

IDS = {"zoosim/Recommendation-v0": "recommendation_env:Recommendation"}


def register_envs() -> None:
    """Register every environment that is not registered yet."""
    for name, place in IDS.items():
        if name not in gymnasium.registry:
            module = f"zoosim.envs.{place}"
            gymnasium.register(name, entry_point=f"{module}Env", vector_entry_point=f"{module}VectorEnv")
