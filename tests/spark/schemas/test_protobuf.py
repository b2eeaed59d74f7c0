"""Protobuf messages of ottla's schema registry as records of a Spark schema, without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("avro")
pytest.importorskip("grpc_tools")

from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla import Broker
from ottla.client.schema_registry.framing import framed
from ottla.client.schema_registry.protobuf_messages import ProtobufMessages
from ottla.client.schema_registry.registry_client import PROTOBUF, SchemaReference
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.registry import Decoder, Registry, RegistryClient

pytestmark = pytest.mark.wire

PLACE = """
syntax = "proto3";
package shop;
message Place { string city = 1; }
"""
ORDER = """
syntax = "proto3";
package shop;
import "place.proto";
import "google/protobuf/timestamp.proto";
message Order {
  enum State { OPEN = 0; PAID = 1; }
  message Line { string what = 1; uint64 count = 2; }
  int64 id = 1;
  string name = 2;
  optional string note = 3;
  double price = 4;
  bytes raw = 5;
  bool ok = 6;
  State state = 7;
  repeated Line lines = 8;
  map<string, int32> totals = 9;
  Place place = 10;
  google.protobuf.Timestamp at = 11;
  uint64 large = 12;
  float small = 13;
  oneof by { string user = 14; int32 machine = 15; }
}
message Cancelled { int64 id = 1; }
"""


class Topic:
    """A registry with the schemas of a topic's values."""

    def __init__(self, broker: Broker) -> None:
        self.client = RegistryClient(Registry(broker.schema_registry_url))
        self.client.register("place", PLACE, PROTOBUF)
        reference = SchemaReference("place.proto", "place", 1)
        self.order = self.client.register("orders-value", ORDER, PROTOBUF, [reference])
        self.messages = ProtobufMessages(self.order, self.client)

    def decoded(self, schema: str, value: bytes | None) -> dict[str, Any] | None:
        return Decoder(self.client, schema).decode(value)

    def value(self, **fields: Any) -> bytes:
        return framed(self.order, self.messages.written(fields))

    def nested(self, indexes: bytes, body: bytes) -> bytes:
        return framed(self.order, indexes + body)


@pytest.fixture(scope="module")
def topic() -> Iterator[Topic]:
    with Broker(schema_registry=True) as broker:
        yield Topic(broker)


def test_plain_fields_of_a_message_become_columns(topic: Topic) -> None:
    schema = "id LONG, name STRING, price DOUBLE, raw BINARY, ok BOOLEAN, small FLOAT, large BIGINT, absent STRING"
    value = topic.value(id=1 << 60, name="ü", price=1.5, raw="eA==", ok=True, small=0.5, large=7)
    row = {"id": 1 << 60, "name": "ü", "price": 1.5, "raw": b"x", "ok": True, "small": 0.5, "large": 7, "absent": None}
    assert topic.decoded(schema, value) == row


def test_fields_without_a_value_are_null_only_if_they_have_presence(topic: Topic) -> None:
    columns = "id LONG, name STRING, note STRING, state STRING, lines STRING, totals STRING, place STRING, user STRING, machine INT"
    empty = {"id": 0, "name": "", "note": None, "state": "OPEN", "lines": "[]", "totals": "{}", "place": None}
    assert topic.decoded(columns, topic.value()) == {**empty, "user": None, "machine": None}
    assert topic.decoded(columns, topic.value(note="", machine=0)) == {**empty, "note": "", "user": None, "machine": 0}


def test_messages_lists_maps_and_enums_become_text(topic: Topic) -> None:
    value = topic.value(
        state="PAID",
        lines=[{"what": "tea", "count": 2}, {}],
        totals={"a": 1},
        place={"city": "Köln"},
        at="2026-11-29T12:00:00Z",
    )
    row = topic.decoded("state STRING, lines STRING, totals STRING, place STRING, at STRING", value)
    assert row is not None
    # JSON has a 64-bit number as text (the mapping of Protobuf to JSON).
    assert json.loads(row["lines"]) == [{"what": "tea", "count": "2"}, {}]
    assert (json.loads(row["totals"]), row["place"]) == ({"a": 1}, '{"city": "Köln"}')
    assert (row["state"], row["at"]) == ("PAID", "2026-11-29T12:00:00Z")
    assert topic.decoded("state INT", value) == {"state": 1}
    # A number that the enum does not have, as from a producer with a newer schema.
    assert topic.decoded("state STRING", topic.nested(b"\0", b"\x38\x09")) == {"state": "9"}


def test_message_indexes_select_the_message_type(topic: Topic) -> None:
    assert topic.decoded("id LONG, name STRING", topic.nested(b"\x02\x02", b"\x08\x07")) == {"id": 7, "name": None}
    # The nested message Order.Line: two indexes, 0 and 0.
    line = topic.nested(b"\x04\0\0", b"\x0a\x03tea\x10\x02")
    assert topic.decoded("what STRING, count LONG", line) == {"what": "tea", "count": 2}


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ("id STRING", {"id": 1}),
        ("id INT", {"id": 1 << 31}),
        ("large LONG", {"large": 1 << 63}),
        ("name LONG", {"name": "7"}),
        ("name BINARY", {"name": "x"}),
        ("raw STRING", {"raw": "eA=="}),
        ("price FLOAT", {"price": 1.5}),
        ("ok INT", {"ok": True}),
        ("lines BINARY", {"lines": [{}]}),
        ("at LONG", {"at": "2026-11-29T12:00:00Z"}),
    ],
)
def test_message_whose_field_does_not_fit_its_column_is_not_decoded(topic: Topic, schema: str, fields: dict[str, Any]) -> None:
    assert topic.decoded(schema, topic.value(**fields)) is None


def test_invalid_messages_are_not_decoded(topic: Topic) -> None:
    good = topic.value(name="name", id=7)
    assert topic.decoded("id LONG", good) == {"id": 7}
    for bad in (good[:-1], good[:5], framed(9_999, good[5:]), topic.nested(b"\x02\x0a", b""), topic.nested(b"\x02\x01", b"")):
        assert topic.decoded("id LONG", bad) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_random_bytes_never_raise_in_the_protobuf_decoder(topic: Topic, data: bytes) -> None:
    topic.decoded("id LONG, name STRING, lines STRING, at STRING", framed(topic.order, data))


def test_values_of_both_kinds_of_schemas_may_be_in_one_topic(topic: Topic) -> None:
    avro = topic.client.register(
        "avro-value", json.dumps({"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}]})
    )
    decoder = Decoder(topic.client, "id LONG, name STRING")
    assert decoder.decode(framed(avro, b"\x0e")) == {"id": 7, "name": None}
    assert decoder.decode(topic.value(id=8, name="n")) == {"id": 8, "name": "n"}


def test_missing_protobuf_is_named_with_the_command_that_installs_it(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    assert issubclass(type(topic.messages.message(b"\0")), Message)
    monkeypatch.delitem(sys.modules, "ottla.spark.schemas.protobuf", raising=False)
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor", None)
    with pytest.raises(PipelineError, match=r"Spark's workers cannot import protobuf .* -m pip install protobuf` on each worker"):
        topic.decoded("id LONG", topic.value(id=1))
