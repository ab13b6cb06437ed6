"""Descriptions of worlds in plain numbers, for their pages and for notebooks."""

from zoosim.describe.recommendation import RecommendationDescription, describe_recommendation
from zoosim.describe.search import SearchDescription, describe_search

__all__ = ["RecommendationDescription", "SearchDescription", "describe_recommendation", "describe_search"]
