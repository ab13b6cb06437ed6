"""The backend of a shop that asks a zoosim service what to show: uvicorn examples.shop_backend:app (needs fastapi).

Start the service beside it: zoosim serve shop.zoosim. Its address and key come from ZOOSIM_URL and ZOOSIM_KEY.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from pydantic import BaseModel

from zoosim import AsyncClient
from zoosim.serving.client import ServiceError


@asynccontextmanager
async def with_service(app: FastAPI) -> AsyncIterator[None]:
    """Keep the connection to the service open while the shop runs."""
    async with AsyncClient(
        os.environ.get("ZOOSIM_URL", "http://127.0.0.1:8100"), os.environ.get("ZOOSIM_KEY", "")
    ) as shop:
        app.state.shop = shop
        yield


app = FastAPI(lifespan=with_service)


class Recommendation(BaseModel):
    """What the page shows, and the id that its clicks name; None where the service did not decide."""

    product: str
    decision: str | None


class Click(BaseModel):
    """A click on what was shown."""

    decision: str


@app.get("/recommendation")
async def recommend(request: Request, country: str, visitor: str = "") -> Recommendation:
    """Show a product; the shop's own choice, where the service cannot be asked."""
    candidates = in_stock()
    try:
        decision = await request.app.state.shop.decide({"country": country}, candidates, visitor_id=visitor)
    except ServiceError:
        return Recommendation(product=candidates[0], decision=None)
    return Recommendation(product=decision.product, decision=decision.id)


@app.post("/click")
async def click(request: Request, click: Click) -> dict[str, str]:
    """Tell the service that what it decided to show was clicked."""
    return {"status": await request.app.state.shop.give_feedback(click.decision, {"click": 1.0})}


def in_stock() -> list[str]:
    """Return the products that the shop could show, its own choice first."""
    return [f"p{number}" for number in range(8)]
