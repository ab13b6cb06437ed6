"""The page and figures that describe a world, for search and recommendation worlds alike."""

from collections.abc import Mapping

import plotly.graph_objects as go

from zoosim.descriptions import RecommendationDescription, SearchDescription
from zoosim.report.recommendation import recommendation_figures, render_recommendation
from zoosim.report.search import render_search, search_figures

Facts = SearchDescription | RecommendationDescription


def world_figures(facts: Facts) -> dict[str, go.Figure]:
    """Draw the figures of a world's page, by name."""
    if isinstance(facts, SearchDescription):
        return search_figures(facts)
    return recommendation_figures(facts)


def render_world(facts: Facts, figures: Mapping[str, go.Figure], title: str, command: str, config_yaml: str) -> str:
    """Render one self-contained HTML page with the `figures` of `world_figures`."""
    if isinstance(facts, SearchDescription):
        return render_search(facts, figures, title, command, config_yaml)
    return render_recommendation(facts, figures, title, command, config_yaml)
