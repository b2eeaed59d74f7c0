"""Requests for actions of the console, without a broker: refused requests, and the equivalent commands."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ottla.client.admin.places import Place
from ottla.client.kafka_client import KafkaClient
from ottla.console.actions.action import Effects, command_line, named, option
from ottla.console.actions.records import MAX_HEADERS
from ottla.console.actions.registry import ACTIONS, carried_out
from ottla.control.command import CommandRefused


def no_client() -> KafkaClient:
    raise AssertionError("a refused request needs no client")


def refused(name: str, body: bytes) -> CommandRefused:
    with pytest.raises(CommandRefused) as caught:
        carried_out(name, body, no_client, [], is_preview=False)
    return caught.value


def test_console_error_for_an_unknown_action_lists_the_known_actions() -> None:
    error = refused("format-disk", b"{}")
    assert (error.status, "unknown action 'format-disk'" in str(error)) == (404, True)
    assert all(name in str(error) for name in ACTIONS)


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"no_such": 1}', b"null", b"\xff", b'{"topic": 5}', b'{"topic": "\\ud800"}'])
def test_malformed_console_action_parameters_are_refused(name: str, body: bytes) -> None:
    error = refused(name, body)
    assert error.status == 400
    assert str(error).startswith((f"{name}: ", "topic: expected a text"))
    assert "`int`" not in str(error)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"topic": 5}, "topic: expected a text, got a whole number"),
        ({"topic": "t", "partitions": 0}, "partitions: expected a whole number >= 1"),
        ({"topic": "t", "partitions": 1.5}, "partitions: expected a whole number or nothing, got a number"),
        ({"topic": "t", "configs": []}, "configs: expected an object, got a list"),
    ],
)
def test_wrong_parameter_of_a_console_action_is_named_without_types_of_python(parameters: dict[str, Any], message: str) -> None:
    assert str(refused("create-topic", json.dumps(parameters).encode())) == message


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("create-topic", {"topic": "t", "partitions": 0}),
        ("create-topic", {"topic": "t", "partitions": 2**31}),
        ("create-topic", {"topic": "t", "replicas": 2**15}),
        ("create-topic", {"topic": "t" * 9_000}),
        ("produce", {"topic": "t", "value": "v", "partition": -1}),
        ("produce", {"topic": "t", "value": "v", "partition": 2**31}),
        ("produce", {"topic": "t", "value": "v", "headers": [{"name": "n", "value": "v"}] * (MAX_HEADERS + 1)}),
        ("delete-records", {"topic": "t", "before": {"kind": "offset", "number": -1}}),
        ("delete-records", {"topic": "t", "before": {"kind": "offset", "number": 2**63}}),
        ("delete-records", {"topic": "t", "before": {"kind": "yesterday"}}),
        ("delete-records", {"topic": "t", "before": {"kind": "end"}, "offsets": {"-1": 0}}),
        ("delete-records", {"topic": "t", "before": {"kind": "end"}, "offsets": {"0": 2**63}}),
        ("reset-group", {"group": "g", "to": {"kind": "end"}, "offsets": [{"topic": "t", "partition": 0, "offset": -1}]}),
        ("set-config", {"kind": "client-metrics", "name": "n", "key": "k", "value": "v"}),
    ],
)
def test_console_action_refuses_numbers_and_names_too_large_for_a_kafka_request(name: str, parameters: dict[str, Any]) -> None:
    assert refused(name, json.dumps(parameters).encode()).status == 400


class FakeClient:
    brokers = cast(Any, None)

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


def previewed(name: str, **parameters: Any) -> dict[str, Any]:
    body = json.dumps(parameters).encode()
    return carried_out(name, body, lambda: cast(Any, FakeClient()), ["--bootstrap", "b:1"], is_preview=True)


def test_preview_of_produce_has_a_command_with_key_value_headers_and_partition() -> None:
    parts: dict[str, Any] = {
        "topic": "orders",
        "key": "it's",
        "value": "-1",
        "headers": [{"name": "a", "value": "b c"}],
        "partition": 2,
    }
    command = "ottla produce --key 'it'\"'\"'s' --value=-1 --header 'a=b c' --partition 2"
    assert previewed("produce", **parts)["command"] == f"{command} orders --bootstrap b:1"
    in_transaction = previewed("produce", **parts, transaction={"id": "shop", "is_committed": False})
    assert in_transaction["command"] == f"{command} --transactional-id shop --abort orders --bootstrap b:1"
    assert "transactional id shop, if there is one, is fenced" in in_transaction["warning"]


def test_produce_preview_explains_a_record_that_no_command_can_write() -> None:
    shown = previewed("produce", topic="orders", value="v", headers=[{"name": "a", "value": " b"}])
    assert (shown["command"], "removes the blanks" in shown["warning"]) == ("", True)


def test_console_refuses_a_tombstone_without_a_key() -> None:
    with pytest.raises(CommandRefused, match="a tombstone needs the key"):
        previewed("produce", topic="orders", value=None)
    command = "ottla produce --key a --null-value orders --bootstrap b:1"
    assert previewed("produce", topic="orders", value=None, key="a")["command"] == command


def test_preview_of_topic_creation_has_a_command_with_only_the_given_options() -> None:
    assert previewed("create-topic", topic="a")["command"] == "ottla topic create a --bootstrap b:1"
    given = previewed("create-topic", topic="a", partitions=3, replicas=2, configs={"cleanup.policy": "compact"})
    options = "--partitions 3 --replication-factor 2 --config cleanup.policy=compact"
    assert given["command"] == f"ottla topic create {options} a --bootstrap b:1"
    with pytest.raises(CommandRefused, match="the topic has no name"):
        previewed("create-topic", topic="")


@pytest.mark.parametrize(
    ("topic", "lost"),
    [
        ("__consumer_offsets", "the committed offsets of all groups"),
        ("__transaction_state", "the state of all transactional ids"),
        ("__share_group_state", "the state of all share groups"),
        ("__other", ""),
    ],
)
def test_console_warns_of_possible_losses_before_it_creates_an_internal_topic(topic: str, lost: str) -> None:
    warning = previewed("create-topic", topic=topic)["warning"]
    assert (lost in warning, "is an internal topic" in warning) == (True, bool(lost))


def test_previewed_command_puts_names_that_look_like_options_after_two_dashes() -> None:
    assert command_line(["group", "delete", *named("-g")], ["--bootstrap", "b:1"]) == "ottla group delete --bootstrap b:1 -- -g"
    assert (option("--to", None), option("--to", "-1"), option("--to", 0)) == ([], ["--to=-1"], ["--to", "0"])


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place(kind="end"), "end"),
        (Place(kind="beginning"), "beginning"),
        (Place(kind="offset", number=5), "5"),
        (Place(kind="time", number=1_700_000_000_123), "2023-11-14T22:13:20.123Z"),
        (Place(kind="time", number=2**63 - 1), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_previewed_command_writes_an_offset_or_date_as_commands_parse_it(place: Place, text: str) -> None:
    assert place.text() == text


def test_preview_of_a_console_action_has_its_changes_as_json_and_a_command_line() -> None:
    assert Effects(said="done").command == ()
    assert json.loads(json.dumps(previewed("create-topic", topic="a"))) == {
        "command": "ottla topic create a --bootstrap b:1",
        "warning": "",
        "said": "",
        "columns": [],
        "rows": [],
        "more_rows": 0,
        "page": "",
        "parameters": {},
        "confirmed": {},
    }
