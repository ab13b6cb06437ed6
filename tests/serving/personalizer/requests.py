"""Requests as applications send them."""

import uuid
from typing import Any

CONTEXT: list[dict[str, Any]] = [
    {"user": {"profileType": "anonymousUser", "latLong": "47.6,-122.1"}},
    {"environment": {"dayOfMonth": "28", "monthOfYear": "8", "weather": "Sunny"}},
    {"device": {"mobile": True, "sizes": [3.5, 7]}, "nothing": None},
    {"recentActivity": {"itemsInCart": 3}},
]
IDS = ("NewsArticle", "SportsArticle", "EntertainmentArticle")


def actions() -> list[dict[str, Any]]:
    return [{"id": name, "features": [{"type": name.removesuffix("Article")}]} for name in IDS]


def slots() -> list[dict[str, Any]]:
    main = {"Size": "Large", "Position": "Top Middle"}
    side = {"Size": "Small", "Position": "Bottom Right"}
    return [
        {
            "id": "Main Article",
            "baselineAction": "NewsArticle",
            "positionFeatures": [main],
            "excludedActions": ["SportsArticle", "EntertainmentArticle"],
        },
        {
            "id": "Side Bar",
            "baselineAction": "SportsArticle",
            "features": [side],
            "excludedActions": ["EntertainmentArticle"],
        },
    ]


def rank_request(**changes: Any) -> dict[str, Any]:
    return {"actions": actions(), "contextFeatures": CONTEXT, "eventId": uuid.uuid4().hex, **changes}


def slots_request(**changes: Any) -> dict[str, Any]:
    return {**rank_request(slots=slots()), **changes}


def service_configuration(**changes: Any) -> dict[str, Any]:
    return {
        "rewardWaitTime": "PT10M",
        "defaultReward": 0.0,
        "rewardAggregation": "earliest",
        "explorationPercentage": 0.2,
        "modelExportFrequency": "PT5M",
        "logRetentionDays": 90,
        **changes,
    }


MULTI_SLOT = {
    "name": "several",
    "arguments": "--ccb_explore_adf --epsilon 0.2 --power_t 0 -l 0.001 --cb_type mtr -q ::",
}
