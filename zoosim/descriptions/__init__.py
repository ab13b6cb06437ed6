"""Descriptions of worlds in plain numbers, for their pages and for notebooks."""

from zoosim.descriptions.recommendation import RecommendationDescription, describe_recommendation
from zoosim.descriptions.search import SearchDescription, describe_search

__all__ = ["RecommendationDescription", "SearchDescription", "describe_recommendation", "describe_search"]
