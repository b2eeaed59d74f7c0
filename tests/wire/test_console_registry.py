"""The console decodes values with the schemas of the broker's own registry."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from ottla import Broker
from ottla.cli.registry_values import registry_of
from ottla.client.schema_registry.encoding import registering_encoder
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, Registry, RegistryClient
from ottla.client.security.client_config import Secret
from tests.wire.test_console import values
from tests.wire.test_console_elsewhere import TIMEOUT_S, Site

pytestmark = pytest.mark.wire

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
KINDS = {PROTOBUF: "protobuf", JSON: "json-schema"}
"""What a page says about a decoded value."""


@pytest.mark.parametrize("security", [None, "SASL_PLAINTEXT"])
def test_console_message_page_shows_values_decoded_with_the_schema_registry(security: str | None) -> None:
    with Broker(schema_registry=True, settings={"ottla.console": True}, security=security) as broker:
        broker.create_topic("orders", 1)
        token = broker.schema_registry_token
        assert (token is not None) == (security is not None)
        client = RegistryClient(Registry(broker.schema_registry_url, token=Secret(token or "")))
        encode = registering_encoder(client, "orders-value", SCHEMA, AVRO).encode
        broker.produce("orders", [encode(b'{"id": 1}'), b"\0\0\0\3\xe7unknown", "text"])
        page = values(broker, "messages", topic="orders")
        found = {record["offset"]: record["value"] for record in page["records"]}
        assert [(found[at]["kind"], found[at]["problem"]) for at in range(3)] == [("avro", ""), ("hex", ""), ("text", "")]
        assert found[0]["text"] == '{"id":1}'


@pytest.mark.parametrize(
    ("kind", "schema", "value"),
    [
        (PROTOBUF, 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }', '{"id":"7","note":"ä"}'),
        (JSON, '{"type": "object", "properties": {"id": {"type": "integer"}}}', '{"id":7,"note":"ä"}'),
    ],
)
def test_console_pages_show_protobuf_and_json_schema_values_of_the_registry(kind: str, schema: str, value: str) -> None:
    with Broker(schema_registry=True, settings={"ottla.console": True}) as broker:
        broker.create_topic("orders", 1)
        encode = registering_encoder(RegistryClient(Registry(broker.schema_registry_url)), "orders-value", schema, kind).encode
        encoded = encode(value.encode())
        broker.produce("orders", [encoded, encoded[:5] + b"\xff\xff"])
        page = values(broker, "messages", topic="orders", order="oldest")
        decoded, damaged = (record["value"] for record in page["records"])
        assert (decoded["kind"], json.loads(decoded["text"]), decoded["problem"]) == (KINDS[kind], json.loads(value), "")
        assert damaged["kind"] != KINDS[kind] or damaged["problem"], damaged
        one = values(broker, "record", topic="orders", partition=0, offset=0)
        assert json.loads(one["value"]["text"]) == json.loads(value)


def served(broker: Broker, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "ottla", "console", "--bootstrap", broker.bootstrap, "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stopped(process: subprocess.Popen[str]) -> str:
    """Stop a console and return what it has printed to stderr."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=TIMEOUT_S)[1]


def test_console_command_decodes_values_with_a_schema_registry() -> None:
    with Broker(schema_registry=True) as broker:
        broker.create_topic("orders", 1)
        encode = registering_encoder(RegistryClient(Registry(broker.schema_registry_url)), "orders-value", SCHEMA, AVRO).encode
        broker.produce("orders", [encode(b'{"id": 1}'), encode(b'{"id": 2}')])
        process = served(broker, "--schema-registry", broker.schema_registry_url)
        assert process.stdout is not None
        site = Site(json.loads(process.stdout.readline())["console"])
        filtered = site.values("messages", topic="orders", filter="value$.id>1")
        assert [record["value"]["text"] for record in filtered["records"]] == ['{"id":2}']
        parts = [value for kind, value in site.events("download", topic="orders", format="csv") if kind == "part"]
        assert sorted("".join(parts).count(f'"{{""id"":{number}}}",avro') for number in (1, 2)) == [1, 1]
        assert stopped(process) == ""


def test_console_command_reports_an_unreachable_schema_registry_in_one_line() -> None:
    with Broker() as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", [b"\0\0\0\0\1x"])
        process = served(broker, "--schema-registry", "http://127.0.0.1:1")
        assert process.stdout is not None
        site = Site(json.loads(process.stdout.readline())["console"])
        record = site.values("messages", topic="orders")["records"][0]
        assert (record["value"]["kind"], "127.0.0.1:1" in record["value"]["problem"]) == ("hex", True)
        error = stopped(process)
        assert error.startswith("values are shown without their schemas: the registry at http://127.0.0.1:1 ")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "properties", "expected"),
    [
        (None, {}, None),
        ("http://a", {}, Registry("http://a")),
        (None, {"schema.registry.url": "http://b, http://c"}, Registry("http://b")),
        ("http://a", {"basic.auth.user.info": "u:p:q"}, Registry("http://a", user="u", password=Secret("p:q"))),
        (
            None,
            {"schema.registry.url": "http://b", "schema.registry.basic.auth.user.info": "u:p"},
            Registry("http://b", user="u", password=Secret("p")),
        ),
        ("http://a", {"bearer.auth.token": "t"}, Registry("http://a", token=Secret("t"))),
        ("http://a", {"basic.auth.credentials.source": "URL", "basic.auth.user.info": "u:p"}, Registry("http://a")),
    ],
)
def test_console_command_reads_schema_registry_credentials_from_confluents_properties(
    url: str | None, properties: dict[str, str], expected: Registry | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_SCHEMA_REGISTRY_USER", raising=False)
    assert registry_of(url, properties) == expected
    if url is not None:
        monkeypatch.setenv("OTTLA_SCHEMA_REGISTRY_USER", "me:mine")
        assert registry_of(url, properties) == Registry(url, user="me", password=Secret("mine"))
