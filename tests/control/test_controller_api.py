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

from ottla.control.controller_api import DENIALS, ControllerApi

TOKEN = "secret"
DENIED = {"principal": "User:alice", "times": 3}


@pytest.fixture
async def opened() -> AsyncIterator[ControllerApi]:
    settings = SimpleNamespace(ottla_control_token=TOKEN, ottla_control_host="127.0.0.1")
    authorizer = SimpleNamespace(denials=lambda: [DENIED])
    made = ControllerApi(cast(Any, SimpleNamespace(settings=settings, authorizer=authorizer)))
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


async def test_denials_are_shown(opened: ControllerApi) -> None:
    assert await ask(opened) == (200, {"denials": [DENIED]})


async def test_other_requests_are_refused(opened: ControllerApi) -> None:
    assert (await ask(opened, token="wrong"))[0] == 401
    assert (await ask(opened, Host="evil.example"))[0] == 403
    assert (await ask(opened, "/v1/state"))[0] == 404
    assert (await ask(opened, method="POST"))[0] == 405
