"""Schemas in the console: of the broker's own registry, and of a registry that is given to ``ottla console``."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.cli import main
from ottla.client.schema_registry.decoding import RegistryDecoder
from ottla.client.schema_registry.registry_admin import RegistryAdmin
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, Registry, RegistryClient
from ottla.client.security.client_config import Connecting, Secret
from ottla.console.elsewhere import console_server
from tests.wire.test_console_elsewhere import TIMEOUT_S, Site

pytestmark = pytest.mark.wire

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
NEXT = SCHEMA.replace("long", "string")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(schema_registry=True, settings={"ottla.console": True}) as broker:
        yield broker


@contextmanager
def elsewhere(broker: Broker, url: str, *, is_read_only: bool = False) -> Iterator[Site]:
    """The console of another process."""
    connecting = Connecting.parse({"bootstrap.servers": broker.bootstrap}, prefix="")
    server = console_server(broker.bootstrap, connecting, is_read_only=is_read_only, registry=Registry(url))
    server.serve()
    try:
        yield Site(server.url)
    finally:
        server.close()


def preview(site: Site, name: str, **parameters: object) -> tuple[int, Any]:
    answer = site.request("POST", f"/console/previews/{name}", json.dumps(parameters))
    return answer.status, json.loads(answer.read())


def run_command(site: Site, name: str, **parameters: object) -> None:
    """Run the equivalent command of an action."""
    program, *arguments = shlex.split(preview(site, name, **parameters)[1]["command"])
    done = subprocess.run([program, "-sS", "-f", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (program, done.returncode) == ("curl", 0), done.stderr


@pytest.mark.smoke
@pytest.mark.parametrize("place", ["own", "elsewhere"])
def test_console_registers_and_deletes_schemas_as_its_commands_do(broker: Broker, place: str, unique: Callable[[str], str]) -> None:
    with elsewhere(broker, broker.schema_registry_url) as other:
        site = Site(broker.ready["console"]) if place == "own" else other
        ways = [site.act, *([lambda name, **p: run_command(site, name, **p)] if shutil.which("curl") else [])]
        admin = RegistryAdmin(RegistryClient(Registry(broker.schema_registry_url)))
        for way in ways:
            subject = f"{unique('a b')}/ü-value"
            way("register-schema", subject=subject, text=SCHEMA)
            status, refused = preview(site, "register-schema", subject=subject, text=NEXT)
            assert (status, "is not compatible with subject" in refused["error"]) == (409, True)
            way("set-compatibility", subject=subject, level="NONE")
            way("register-schema", subject=subject, text=NEXT)
            assert admin.versions(subject) == [1, 2]
            way("delete-schema-version", subject=subject, version=1)
            shown = site.values("subject", name=subject, version=1)
            assert (shown["shown"]["is_deleted"], shown["level"]) == (True, "NONE")
            way("delete-schema-version", subject=subject, version=1, is_permanent=True)
            way("set-compatibility", subject=subject, level=None)
            way("delete-subject", subject=subject)
            (row,) = site.values("schemas", match=subject)["part"]["rows"]
            assert (row["is_deleted"], row["version"]) == (True, 2)
            way("delete-subject", subject=subject, is_permanent=True)
            assert site.refusal("subject", name=subject)[0] == 404


SCHEMAS = {
    AVRO: SCHEMA,
    JSON: '{"type": "object", "properties": {"id": {"type": "integer"}}}',
    PROTOBUF: 'syntax = "proto3"; message Order { int64 id = 1; }',
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_console_produces_encoded_records_as_its_command_does(
    broker: Broker, kind: str, unique: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    client = RegistryClient(Registry(broker.schema_registry_url))
    key, subject = unique("key"), unique("a:b")
    client.register(key, '"string"')
    client.register(subject, SCHEMAS[kind], kind)
    schemas_of: dict[str, Any] = {"key_schema": {"subject": key}, "value_schema": {"subject": subject}}
    with elsewhere(broker, broker.schema_registry_url) as site:
        topic = unique("encoded")
        broker.create_topic(topic, 1)
        record = {"topic": topic, "key": '"ü"', "value": '{"id": 7}', **schemas_of}
        site.act("produce", **record)
        _, shown = preview(site, "produce", **record)
        assert main(shlex.split(shown["command"])[1:]) == 0, capsys.readouterr()
        first, second = broker.records(topic)
        assert (first.key, first.value) == (second.key, second.value)
        decoder = RegistryDecoder(client)
        decoded = [decoder.decode(part) for part in (first.key, first.value)]
        assert [found.value for found in decoded if found] == ["ü", {"id": "7" if kind == PROTOBUF else 7}]
        status, refused = preview(site, "produce", **{**record, "value": '{"id": "x"}'})
        assert (status, "a value does not match the schema" in refused["error"]) == (409, True)
        assert site.request("POST", "/console/actions/produce", json.dumps({**record, "value": "{"})).status == 409
        assert len(broker.records(topic)) == 2, "a refused record is not written"


def test_produce_command_encodes_keys_and_values_by_registered_schemas(
    broker: Broker, unique: Callable[[str], str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    client = RegistryClient(Registry(broker.schema_registry_url))
    topic, key, value = unique("lines"), unique("key"), unique("value")
    broker.create_topic(topic, 1)
    client.register(key, '"long"')
    client.register(value, SCHEMA)
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"id": 1}\n{"id": 2}\n')
    common = ["--bootstrap", broker.bootstrap, "--registry", broker.schema_registry_url]
    schemas_of = ["--key-schema", f"{key}:1", "--value-schema", value]
    assert main(["produce", topic, "--file", str(lines), "--key-field", "id", *schemas_of, *common]) == 0, capsys.readouterr()
    assert main(["produce", topic, "--key", "3", "--null-value", *schemas_of[:2], *common]) == 0, capsys.readouterr()
    decoder = RegistryDecoder(client)
    found = [[decoder.decode(part) for part in (record.key, record.value)] for record in broker.records(topic)]
    assert [[one and one.value for one in pair] for pair in found] == [[1, {"id": 1}], [2, {"id": 2}], [3, None]]
    capsys.readouterr()
    assert main(["produce", topic, "--key", "x", "--value", "{}", "--key-schema", key, *common]) == 2
    assert capsys.readouterr().err.startswith("ottla: a key is not JSON")
    assert main(["produce", topic, "--value", '{"id": 1.5}', "--value-schema", value, *common]) == 2
    said = capsys.readouterr().err
    assert ("a value does not match the schema" in said, said.count("\n")) == (True, 1)
    assert main(["produce", topic, "--value", "{}", "--value-schema", "nope", *common]) == 2
    assert "has no version of subject 'nope'" in capsys.readouterr().err
    assert len(broker.records(topic)) == 3


def test_read_only_console_shows_schemas_and_refuses_their_actions(broker: Broker, unique: Callable[[str], str]) -> None:
    subject = unique("subject")
    RegistryClient(Registry(broker.schema_registry_url)).register(subject, SCHEMA)
    with elsewhere(broker, broker.schema_registry_url, is_read_only=True) as site:
        assert site.values("subject", name=subject)["shown"]["version"] == 1
        for action in ("register-schema", "delete-schema-version", "delete-subject", "set-compatibility"):
            assert preview(site, action)[0] == 403
            assert site.request("POST", f"/console/actions/{action}", "{}").status == 403


def test_console_reports_a_registry_that_does_not_answer(broker: Broker) -> None:
    with elsewhere(broker, "http://127.0.0.1:1") as site:
        status, error = site.refusal("schemas")
        assert (status, error.startswith("the registry at http://127.0.0.1:1 does not answer")) == (409, True)
        assert "does not answer" in preview(site, "set-compatibility", level="NONE")[1]["error"]
        assert site.values("overview"), "other pages work"


def test_console_uses_the_token_of_a_secured_registry() -> None:
    with Broker(schema_registry=True, settings={"ottla.console": True}, security="SASL_PLAINTEXT") as broker:
        site = Site(broker.ready["console"])
        assert "schema id 1" in site.act("register-schema", subject="orders-value", text=SCHEMA)["said"]
        assert site.values("schemas")["part"]["total"] == 1
        token = broker.schema_registry_token or ""
        assert token not in preview(site, "delete-subject", subject="orders-value")[1]["command"]
        client = RegistryClient(Registry(broker.schema_registry_url, token=Secret(token)))
        assert RegistryAdmin(client).subjects() == ["orders-value"]


def test_console_without_a_registry_has_no_page_of_schemas() -> None:
    with Broker(settings={"ottla.console": True}) as broker:
        site = Site(broker.ready["console"])
        assert site.request("GET", "/console/v1/schemas").status == 404
        assert b"hasRegistry = false" in site.request("GET", "/console/mode.js").read()
        status, refused = preview(site, "set-compatibility", level="NONE")
        assert (status, refused["error"]) == (409, "this console has no schema registry")
