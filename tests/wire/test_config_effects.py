"""Commands and the console warn of configs without effect, if the broker is ottla. Apache Kafka causes no warning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli import main
from ottla.client import KafkaClient
from ottla.console.actions.registry import carried_out
from tests.support.either_broker import EITHER, running

pytestmark = pytest.mark.wire

TIMEOUT_S = 60.0


@pytest.fixture(scope="module", params=EITHER)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, bool]]:
    """Address of a broker, and whether it is ottla: each test runs with ottla and with Apache Kafka."""
    with running(request.param, tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap, request.param == "ottla"


Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(kafka: tuple[str, bool], capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: str) -> tuple[str, str]:
        assert main([*arguments, "--bootstrap", kafka[0], "--timeout-s", str(TIMEOUT_S)]) == 0, capsys.readouterr()
        captured = capsys.readouterr()
        return captured.out, captured.err

    return ran


def expected(kafka: tuple[str, bool], *keys: str) -> str:
    return "".join(f"{key} has no effect in ottla\n" for key in keys) if kafka[1] else ""


def test_commands_warn_once_of_each_config_without_effect(kafka: tuple[str, bool], run: Run, unique: Callable[[str], str]) -> None:
    topic, configs = unique("topic"), ("--config", "flush.ms=5", "--config", "retention.ms=60000")
    assert run("topic", "create", topic, *configs, "--config", "preallocate=true") == (
        f"topic {topic} was created\n",
        expected(kafka, "flush.ms", "preallocate"),
    )
    assert run("topic", "create", topic, *configs, "--if-missing") == (f"topic {topic} already exists\n", "")
    assert run("topic", "create", unique("plain"), "--config", "retention.ms=60000")[1] == ""
    assert run("topic", "alter", topic, *configs, "--unset", "preallocate")[1] == expected(kafka, "flush.ms")
    assert run("config", "set", "topic", topic, "preallocate=true", "retention.ms=7", "--unset", "flush.ms") == (
        f"topic {topic}: preallocate=true, retention.ms=7, flush.ms was reset to its default\n",
        expected(kafka, "preallocate"),
    )
    for key in ("background.threads", "my.plugin.config"):
        assert run("config", "set", "broker", "default", f"{key}=5")[1] == expected(kafka, key)
        assert run("config", "set", "broker", "default", "--unset", key)[1] == ""
    assert run("config", "set", "broker", "default", "log.retention.ms=600000")[1] == ""
    assert run("config", "set", "client-metrics", unique("m"), "interval.ms=1000")[1] == expected(kafka, "interval.ms")


def test_json_output_of_commands_lists_configs_without_effect(
    kafka: tuple[str, bool], run: Run, unique: Callable[[str], str]
) -> None:
    topic, unused = unique("topic"), ["flush.ms"] if kafka[1] else []
    for command in (
        ("topic", "create", topic, "--config", "flush.ms=5", "--config", "retention.ms=60000"),
        ("topic", "alter", topic, "--config", "flush.ms=6"),
        ("config", "set", "topic", topic, "flush.ms=7"),
    ):
        out, err = run(*command, "--json")
        assert (json.loads(out)["without_effect"], err) == (unused, expected(kafka, *unused))
    assert json.loads(run("topic", "alter", topic, "--unset", "flush.ms", "--json")[0])["without_effect"] == []


def test_console_warns_of_configs_without_effect_in_preview_and_result(
    kafka: tuple[str, bool], unique: Callable[[str], str]
) -> None:
    bootstrap, topic = kafka[0], unique("topic")

    def warnings(action: str, **parameters: Any) -> set[str]:
        new_client = lambda: KafkaClient(bootstrap, TIMEOUT_S)  # noqa: E731
        body = json.dumps(parameters).encode()
        return {str(carried_out(action, body, new_client, [], is_preview=is_preview)["warning"]) for is_preview in (True, False)}

    def text(*keys: str) -> set[str]:
        return {expected(kafka, *keys).strip().replace("\n", ". ")}

    configs = {"flush.ms": "5", "retention.ms": "60000", "preallocate": "true"}
    assert warnings("create-topic", topic=topic, configs=configs) == text("flush.ms", "preallocate")
    of_topic = {"kind": "topic", "name": topic}
    assert warnings("set-config", **of_topic, key="flush.ms", value="6") == text("flush.ms")
    assert warnings("set-config", **of_topic, key="flush.ms", value=None) == {""}
    assert warnings("set-config", **of_topic, key="retention.ms", value="70000") == {""}
    of_brokers = {"kind": "broker", "name": ""}
    assert warnings("set-config", **of_brokers, key="background.threads", value="5") == text("background.threads")
    assert warnings("set-config", **of_brokers, key="background.threads", value=None) == {""}
    assert warnings("set-config", **of_brokers, key="my.other.config", value="5") == text("my.other.config")
