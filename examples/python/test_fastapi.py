"""A FastAPI application that writes an order to Kafka, and its test. Needs ``pip install fastapi httpx2 pytest aiokafka``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

pytest.importorskip("httpx2")
fastapi = pytest.importorskip("fastapi")


def create_app(kafka: dict[str, Any]) -> Any:
    """Return the application. ``kafka`` are the settings of aiokafka."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with AIOKafkaProducer(**kafka) as app.state.producer:
            yield

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/orders/{number}", status_code=202)
    async def place_order(number: int) -> dict[str, int]:
        await app.state.producer.send_and_wait("orders", json.dumps({"id": number}).encode())
        return {"id": number}

    return app


@pytest.mark.ottla(fresh=True)
def test_order_is_written(ottla: Any) -> None:
    from fastapi.testclient import TestClient

    with TestClient(create_app(ottla.client_config("aiokafka"))) as client:
        assert client.post("/orders/1").status_code == 202
    ottla.expect("orders", [{"id": 1}])
