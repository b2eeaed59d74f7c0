"""Optional packages: the broker's behaviour without each of them, and its error message for a missing package."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from pathlib import Path

import pytest

from ottla.broker.process import running
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.simulation.broker import SimulatedBroker


def test_asyncio_loop_is_used_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[str] = []

    async def serve() -> None:
        loops.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    running._run(serve())
    monkeypatch.setitem(sys.modules, "uvloop", None)
    running._run(serve())
    assert loops == ["uvloop", "asyncio"]


def test_dependencies_without_extras_include_re2_for_subscription_patterns() -> None:
    """`group.protocol=consumer` includes regular expressions in subscriptions, so google-re2 is not an optional dependency."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert any(dependency.startswith("google-re2") for dependency in project["dependencies"])
    assert "regex" not in project["optional-dependencies"]


def test_only_pattern_subscriptions_are_refused_without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    broker = SimulatedBroker().start().with_coordinators()
    with broker.connect() as client:
        assert client.call(ListTransactionsRequest(transactional_id_pattern="a.*"), 2).error_code == Code.INVALID_REGULAR_EXPRESSION
        assert client.call(ListTransactionsRequest(), 2).error_code == 0
    broker.close()
    assert broker.bugs == 0
