"""The page and figures that describe a world, for search and recommendation worlds alike."""

import plotly.graph_objects as go

from zoosim.describe import RecommendationDescription, SearchDescription
from zoosim.report.recommendation import recommendation_figures, render_recommendation
from zoosim.report.search import render_search, search_figures

Facts = SearchDescription | RecommendationDescription


def world_figures(facts: Facts) -> dict[str, go.Figure]:
    """Draw the figures of a world's page, by name."""
    if isinstance(facts, SearchDescription):
        return search_figures(facts)
    return recommendation_figures(facts)


def render_world(facts: Facts, title: str, command: str, config_yaml: str) -> str:
    """Render one self-contained HTML page."""
    if isinstance(facts, SearchDescription):
        return render_search(facts, title, command, config_yaml)
    return render_recommendation(facts, title, command, config_yaml)
