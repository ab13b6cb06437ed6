"""Gymnasium environments."""

from zoosim.envs.registration import register_envs

__all__ = ["register_envs"]
