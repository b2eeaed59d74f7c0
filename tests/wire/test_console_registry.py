"""The console decodes values with the schemas of the broker's own registry."""

from __future__ import annotations

import json

import pytest

from ottla import Broker
from ottla.client.schema_registry.encoding import RegistryEncoder
from ottla.client.schema_registry.registry_client import AVRO, Registry, RegistryClient
from ottla.client.security.client_config import Secret
from tests.wire.test_console import values

pytestmark = pytest.mark.wire

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.mark.parametrize("security", [None, "SASL_PLAINTEXT"])
def test_message_page_shows_registered_values(security: str | None) -> None:
    with Broker(schema_registry=True, settings={"ottla.console": True}, security=security) as broker:
        broker.create_topic("orders", 1)
        token = broker.schema_registry_token
        assert (token is not None) == (security is not None)
        client = RegistryClient(Registry(broker.schema_registry_url, token=Secret(token or "")))
        encode = RegistryEncoder(client, "orders-value", SCHEMA, AVRO).encode
        broker.produce("orders", [encode(b'{"id": 1}'), b"\0\0\0\3\xe7unknown", "text"])
        page = values(broker, "messages", topic="orders")
        found = {record["offset"]: record["value"] for record in page["records"]}
        assert [(found[at]["kind"], found[at]["problem"]) for at in range(3)] == [("avro", ""), ("hex", ""), ("text", "")]
        assert found[0]["text"] == '{"id":1}'
