"""An unexpected error in the control API is answered, logged once and counted, like an error in a Kafka request."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from ottla.control import http_api as control_api
from ottla.control.command import Command
from ottla.control.http_api import ControlServer

TOKEN = "secret"


async def _fails(*_: object) -> None:
    raise KeyError("a bug")


def answer_of(url: str, path: str) -> tuple[int, Any]:
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


async def test_bug_in_a_control_command_is_answered_logged_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_api, "COMMANDS", (Command(method="GET", path="/v1/fails", run=_fails),))
    settings = SimpleNamespace(
        ottla_control_token=TOKEN, ottla_control_host="127.0.0.1", ottla_control_port=0, advertised_listeners=None
    )
    lifecycle = SimpleNamespace(unexpected_errors=0)
    broker = SimpleNamespace(settings=settings, lifecycle=lifecycle)
    opened = ControlServer(cast(Any, SimpleNamespace(serving=SimpleNamespace(broker=broker))))
    opened.serve()
    try:
        with capture_logs() as lines:
            status, answer = await asyncio.to_thread(answer_of, opened.url, "/v1/fails")
    finally:
        await asyncio.to_thread(opened.close)
    assert (status, answer) == (500, {"error": "an unexpected error has occurred; the broker's log has the details"})
    assert [(line["event"], line["exc_info"][0]) for line in lines] == [("http_request_failed", KeyError)]
    assert lifecycle.unexpected_errors == 1
