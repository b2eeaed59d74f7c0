"""The control API of a controller shows denials to clients with the token, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from ottla.broker.network.listener import advertised_hosts
from ottla.control.controller_api import DENIALS, ControllerApi

TOKEN = "secret"
DENIED = {"principal": "User:alice", "times": 3}


@pytest.fixture
def controller() -> SimpleNamespace:
    return SimpleNamespace(
        settings=SimpleNamespace(ottla_control_token=TOKEN, ottla_control_host="127.0.0.1"),
        authorizer=SimpleNamespace(denials=lambda: [DENIED]),
        lifecycle=SimpleNamespace(unexpected_errors=0),
    )


@pytest.fixture
async def opened(controller: SimpleNamespace) -> AsyncIterator[ControllerApi]:
    advertised = SimpleNamespace(advertised_listeners=("PLAINTEXT://Kafka.example:9092",))
    made = ControllerApi(cast(Any, controller), advertised_hosts(cast(Any, advertised)))
    made.serve()
    yield made
    await asyncio.to_thread(made.close)


async def ask(
    opened: ControllerApi, path: str = DENIALS, method: str = "GET", token: str = TOKEN, **headers: str
) -> tuple[int, Any]:
    def asked() -> tuple[int, Any]:
        where = urlsplit(opened.url)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=60)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {token}", **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(asked)


async def test_control_api_of_a_controller_shows_denials(opened: ControllerApi) -> None:
    assert await ask(opened) == (200, {"denials": [DENIED]})


async def test_control_api_of_a_controller_refuses_other_requests(opened: ControllerApi) -> None:
    assert (await ask(opened, token="wrong"))[0] == 401
    assert (await ask(opened, Host="evil.example"))[0] == 403
    assert (await ask(opened, "/v1/state"))[0] == 404
    assert (await ask(opened, method="POST"))[0] == 405


async def test_control_api_of_a_controller_accepts_advertised_host_names(opened: ControllerApi) -> None:
    assert (await ask(opened, Host="kafka.example"))[0] == 200


async def test_unexpected_error_in_the_control_api_of_a_controller_is_counted(
    opened: ControllerApi, controller: SimpleNamespace
) -> None:
    controller.authorizer.denials = lambda: 1 / 0
    assert (await ask(opened))[0] == 500
    # The thread of the HTTP server counts the error by a callback on this event loop, shortly before or after it responds.
    await asyncio.to_thread(opened.close)
    await asyncio.sleep(0)
    assert controller.lifecycle.unexpected_errors == 1
