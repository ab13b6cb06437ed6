"""Descriptions of worlds in plain numbers, for their pages and for notebooks."""

from zoosim.descriptions.lure import LureDescription, describe_lure
from zoosim.descriptions.recommendation import RecommendationDescription, describe_recommendation
from zoosim.descriptions.search import SearchDescription, describe_search
from zoosim.descriptions.sessions import SessionsDescription, describe_sessions

__all__ = [
    "LureDescription",
    "RecommendationDescription",
    "SearchDescription",
    "SessionsDescription",
    "describe_lure",
    "describe_recommendation",
    "describe_search",
    "describe_sessions",
]
