"""The levels of the broker's loggers, which kafka-configs describes and alters (KIP-412)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import structlog

import ottla.broker
import ottla.http
from ottla.broker.loop import logs
from ottla.broker.loop.logs import LOG_LEVELS, LOGGERS, ROOT
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

LOGGER = 8
SET, DELETE, APPEND = range(3)


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """The levels belong to the process, so another test may have changed them."""
    default_levels()
    yield
    default_levels()


def default_levels() -> None:
    for name in LOGGERS:
        LOG_LEVELS.set(name, None)
    LOG_LEVELS.set(ROOT, "INFO")


@pytest.fixture
def client() -> Iterator[SimulatedClient]:
    broker = SimulatedBroker().start()
    with broker.connect() as connected:
        yield connected
    broker.close()
    assert broker.bugs == 0


def shown(client: SimulatedClient) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=LOGGER, resource_name="1", configuration_keys=None)
    (result,) = client.call(DescribeConfigsRequest(resources=[resource])).results
    assert {(c.config_source, c.read_only) for c in result.configs} == {(6, False)}
    return {config.name: config.value for config in result.configs}


def change(client: SimulatedClient, *changes: tuple[str, int, str | None], node: str = "1", validate_only: bool = False) -> int:
    configs = [AlterableConfig(name=name, config_operation=how, value=value) for name, how, value in changes]
    resource = AlterConfigsResource(resource_type=LOGGER, resource_name=node, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    code: int = client.call(request).responses[0].error_code
    return code


def test_list_of_loggers_contains_every_logger_of_the_broker() -> None:
    folders = [Path(package.__path__[0]) for package in (ottla.broker, ottla.http)]
    texts = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    names = {name for text in texts for name in re.findall(r'get_logger\("(\w+)"\)', text)}
    assert names == set(LOGGERS)


def test_log_levels_are_described_and_changed(client: SimulatedClient) -> None:
    assert shown(client) == dict.fromkeys((*LOGGERS, ROOT), "INFO")
    assert change(client, ("groups", SET, "TRACE"), (ROOT, SET, "ERROR"), validate_only=True) == 0
    assert shown(client)["groups"] == "INFO"
    assert change(client, ("groups", SET, "TRACE"), (ROOT, SET, "ERROR")) == 0
    assert shown(client) == dict.fromkeys((*LOGGERS, ROOT), "ERROR") | {"groups": "TRACE"}
    assert change(client, ("groups", DELETE, None)) == 0
    assert shown(client)["groups"] == "ERROR"


def test_refused_log_level_change_changes_no_level(client: SimulatedClient) -> None:
    good = ("groups", SET, "DEBUG")
    for bad, code in (
        (("groups", SET, "debug"), Code.INVALID_CONFIG),
        (("no.such", SET, "DEBUG"), Code.INVALID_CONFIG),
        (("no.such", DELETE, None), Code.INVALID_CONFIG),
        ((ROOT, DELETE, None), Code.INVALID_REQUEST),
        ((ROOT, APPEND, "INFO"), Code.INVALID_REQUEST),
        ((ROOT, SET, None), Code.INVALID_REQUEST),
    ):
        assert change(client, *([bad] if bad[0] == good[0] else [good, bad])) == code
    for node in ("", "2", "x"):
        assert change(client, good, node=node) == Code.INVALID_REQUEST
    assert shown(client) == dict.fromkeys((*LOGGERS, ROOT), "INFO")


def test_log_lines_below_the_configured_level_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, before = StringIO(), structlog.get_config()
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        logs.configure(as_json=True, level="warning")
        groups, cluster = structlog.get_logger("groups"), structlog.get_logger("cluster")
        groups.info("one")
        cluster.warning("two")
        LOG_LEVELS.set("groups", "DEBUG")
        groups.debug("three")
        cluster.info("four")
        LOG_LEVELS.set("cluster", "FATAL")
        cluster.error("five")
        cluster.exception("six")
        cluster.critical("seven")
    finally:
        structlog.configure(**before)
    assert re.findall(r'"event": "(\w+)"', stream.getvalue()) == ["two", "three", "seven"]


def test_broker_restart_in_the_same_process_resets_log_levels() -> None:
    before = structlog.get_config()
    LOG_LEVELS.set("groups", "DEBUG")
    LOG_LEVELS.set(ROOT, "ERROR")
    try:
        logs.configure(as_json=True, level="warning")
    finally:
        structlog.configure(**before)
    assert {LOG_LEVELS.of(name) for name in (*LOGGERS, ROOT)} == {"WARN"}
