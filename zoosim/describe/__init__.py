"""What a world is like, in plain figures: for its page, and for a notebook."""

from zoosim.describe.recommendation import RecommendationDescription, describe_recommendation
from zoosim.describe.search import SearchDescription, describe_search

__all__ = ["RecommendationDescription", "SearchDescription", "describe_recommendation", "describe_search"]
