"""The backend of a shop, in front of a running service."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.serving.process import serving
from tests.serving.shop import make_model


def test_a_shop_shows_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.shop_backend import app

    with serving(tmp_path / "service", make_model(tmp_path)) as service:
        monkeypatch.setenv("ZOOSIM_URL", service.url)
        with TestClient(app) as shop:
            shown = shop.get("/recommendation", params={"country": "de", "visitor": "v1"}).json()
            assert shown["decision"] is not None
            assert shop.post("/click", json={"decision": shown["decision"]}).json() == {"status": "accepted"}


def test_a_shop_goes_on_without_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.shop_backend import app

    monkeypatch.setenv("ZOOSIM_URL", "http://127.0.0.1:9")
    with TestClient(app) as shop:
        shown = shop.get("/recommendation", params={"country": "de"}).json()
    assert shown == {"product": "p0", "decision": None}
