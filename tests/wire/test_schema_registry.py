"""The schema registry of a broker's process: stock serialisers, restarts, other writers of the topic, secured brokers, clusters."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("avro")
pytest.importorskip("grpc_tools")

from ottla.client.admin.topics import add_partitions
from ottla.client.kafka_client import KafkaClient
from ottla.client.records.record import NewRecord
from ottla.testing.handle import Broker
from tests.support.waiting import wait_until
from tools import go
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire]

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    made = Broker(schema_registry=True).start()
    try:
        yield made
    finally:
        made.close()


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_registered_schemas_survive_broker_restart_kill_and_restored_snapshot(broker: Broker) -> None:
    # Another test of this module may have registered schemas in the same broker.
    broker.reset()
    url = broker.schema_registry_url
    status, answer = ask(url, "POST", "/subjects/orders-value/versions", {"schema": SCHEMA})
    assert (status, answer) == (200, {"id": 1})
    topic = next(listing for listing in broker.open_client().topics(internal=True) if listing.name == "_schemas")
    assert topic.partitions == 1
    for kill in (False, True):
        broker.restart(kill=kill)
        assert broker.schema_registry_url == url
        assert ask(url, "GET", "/subjects/orders-value/versions/latest")[1]["schema"] == SCHEMA.replace(" ", "")
    snapshot = broker.snapshot()
    broker.reset()
    assert ask(url, "GET", "/subjects") == (200, [])
    assert ask(url, "POST", "/subjects/other/versions", {"schema": '"int"'}) == (200, {"id": 1})
    broker.restore(snapshot)
    assert ask(url, "GET", "/subjects") == (200, ["orders-value"])


def test_schema_registry_reads_schemas_of_another_writer_at_once(broker: Broker) -> None:
    url = broker.schema_registry_url
    ask(url, "POST", "/subjects/first/versions", {"schema": '"long"'})
    key = b'{"keytype":"SCHEMA","subject":"elsewhere","version":1,"magic":1}'
    value = b'{"subject":"elsewhere","version":1,"id":500,"schema":"\\"string\\"","deleted":false}'
    with broker.open_client() as client:
        client.produce("_schemas", [NewRecord(key=key, value=value)])
        assert ask(url, "GET", "/subjects/elsewhere/versions/1")[1]["id"] == 500
        assert ask(url, "POST", "/subjects/new/versions", {"schema": '"bytes"'})[1] == {"id": 501}
        client.produce("_schemas", [NewRecord(key=b"\xff", value=b"x"), NewRecord(key=key, value=None)])
    assert ask(url, "GET", "/subjects/elsewhere/versions/1")[0] == 404


def test_clients_that_register_schemas_at_the_same_time_get_different_ids(broker: Broker) -> None:
    url = broker.schema_registry_url
    names = [f"Type{i % 10}" for i in range(40)]

    def register(name: str) -> tuple[str, int]:
        schema = json.dumps({"type": "fixed", "name": name, "size": 4})
        return name, ask(url, "POST", f"/subjects/{name}/versions", {"schema": schema})[1]["id"]

    with ThreadPoolExecutor(20) as pool:
        ids = set(pool.map(register, names))
    assert len(ids) == len({schema_id for _, schema_id in ids}) == 10


def test_schema_registry_errors_have_codes_and_one_line_messages(broker: Broker) -> None:
    url = broker.schema_registry_url
    status, answer = ask(url, "POST", "/subjects/p/versions", {"schema": "message", "schemaType": "PROTOBUF"})
    assert (status, answer["error_code"]) == (422, 42201)
    assert "schema:1" in answer["message"]
    assert ask(url, "GET", "/schemas/ids/12345")[1]["error_code"] == 40403
    assert ask(url, "POST", "/subjects/p/versions", {"schema": '"int"'}, Origin="http://evil.example")[0] == 403
    status, answer = ask(url, "GET", "/subjects", Host="evil.example")
    assert (status, answer["error_code"]) == (403, 403)
    assert "host name is not accepted" in answer["message"]
    assert ask(url, "GET", "/subjects", Host="localhost:1")[0] == 200
    status, answer = ask(url, "POST", "/subjects/p/versions", {"schema": "x" * (2 << 20)})
    assert (status, answer["error_code"]) == (413, 413)
    assert "at most 1048576 bytes" in answer["message"]


def test_schema_registry_refuses_a_schemas_topic_that_deletes_old_records() -> None:
    with Broker(schema_registry=True).start() as broker:
        broker.create_topic("_schemas", 1)
        status, answer = ask(broker.schema_registry_url, "GET", "/subjects")
        assert (status, answer["error_code"]) == (500, 50001)
        assert "cleanup.policy is delete" in answer["message"]
        with broker.open_client() as client:
            client.delete_topic("_schemas")
        assert ask(broker.schema_registry_url, "GET", "/subjects") == (200, [])


def test_schemas_topic_with_added_partitions_keeps_its_schemas() -> None:
    with Broker(schema_registry=True).start() as broker:
        url = broker.schema_registry_url
        assert ask(url, "POST", "/subjects/a/versions", {"schema": SCHEMA}) == (200, {"id": 1})
        with broker.open_client() as client:
            add_partitions(client.brokers, "_schemas", 3)
        assert ask(url, "POST", "/subjects/b/versions", {"schema": SCHEMA}) == (200, {"id": 1})
        assert ask(url, "GET", "/subjects") == (200, ["a", "b"])


def test_schema_registry_ignores_a_foreign_record_and_logs_it_once() -> None:
    with Broker(schema_registry=True).start() as broker, broker.open_client() as client:
        url = broker.schema_registry_url
        assert ask(url, "PUT", "/config", {"compatibility": "FULL"})[0] == 200
        client.produce("_schemas", [NewRecord(key=b'{"keytype":"CONFIG","subject":null}', value=b'{"compatibilityLevel":"ZZZ"}')])
        for _ in range(2):
            assert ask(url, "GET", "/config") == (200, {"compatibilityLevel": "FULL"})
        assert sum("schema_record_ignored" in line for line in broker.logs) == 1


def test_schema_registry_of_a_secured_broker_requires_a_token() -> None:
    with Broker(security="SASL_PLAINTEXT", users={"alice": "secret"}, schema_registry=True).start() as broker:
        url, token = broker.schema_registry_url, broker.schema_registry_token
        assert token
        assert ask(url, "GET", "/subjects")[0] == 401
        for user in (f"any:{token}", f":{token}"):
            basic = base64.b64encode(user.encode()).decode()
            assert ask(url, "GET", "/subjects", Authorization=f"Basic {basic}") == (200, [])
        assert ask(url, "GET", "/subjects", Authorization=f"Bearer {token}") == (200, [])
        for wrong in ("Basic !!", "Basic eDp5", "Bearer x", "Digest x"):
            assert ask(url, "GET", "/subjects", Authorization=wrong)[0] == 401
        assert ask(url, "POST", "/subjects/a/versions", {"schema": '"int"'}, Authorization=f"Bearer {token}") == (200, {"id": 1})


def test_commands_produce_and_consume_registered_values_as_json(broker: Broker, tmp_path: Any) -> None:
    schemas = {
        "order.avsc": SCHEMA,
        "order.proto": 'syntax = "proto3"; message Order { int64 id = 1; }',
        "order.json": '{"type": "object", "properties": {"id": {"type": "integer"}}}',
    }
    for name, text in schemas.items():
        (tmp_path / name).write_text(text)
        topic = name.replace(".", "-")
        broker.create_topic(topic, 1)
        produced = _ottla(broker, "produce", topic, "--schema", str(tmp_path / name), "--value", '{"id": 7}')
        assert produced.returncode == 0, produced.stderr
        consumed = _ottla(broker, "consume", topic, "--values", "--decode")
        assert json.loads(consumed.stdout) in ({"id": 7}, {"id": "7"})
        wrong = _ottla(broker, "produce", topic, "--schema", str(tmp_path / name), "--value", '{"id": "x"}')
        assert wrong.returncode == 2
        assert wrong.stderr.count("\n") == 1
        assert "does not match the schema" in wrong.stderr


def _ottla(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *arguments, "--bootstrap", broker.bootstrap, "--registry", broker.schema_registry_url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def order_message() -> Any:
    """A message class that ``protoc`` generated from a schema with an import."""
    from google.protobuf import descriptor_pool, timestamp_pb2  # noqa: F401
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(
        name="shop/order.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL)
    message.field.add(name="at", number=2, type=FieldDescriptorProto.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp")
    descriptor_pool.Default().Add(file)
    return GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("shop.Order"))


@pytest.mark.smoke
@pytest.mark.ottla(settings={"num.partitions": 1})
def test_values_of_confluents_serialisers_are_read_by_their_deserialisers(ottla: Broker, ottla_schema_registry: str) -> None:
    """The three serialisers of confluent-kafka register their schemas, and the deserialisers read the values."""
    pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    from ottla.client.schema_registry.decoding import RegistryDecoder
    from ottla.client.schema_registry.registry_client import Registry, RegistryClient

    client = SchemaRegistryClient({"url": ottla_schema_registry})
    decoder = RegistryDecoder(RegistryClient(Registry(ottla_schema_registry)))

    def at(topic: str) -> SerializationContext:
        return SerializationContext(topic, MessageField.VALUE)

    data = AvroSerializer(client, SCHEMA)({"id": 7}, at("avro"))
    assert AvroDeserializer(client, SCHEMA)(data, at("avro")) == AvroDeserializer(client)(data, at("avro")) == {"id": 7}
    decoded = decoder.decode(data)
    assert decoded is not None
    assert (decoded.format, decoded.value, decoded.subject) == ("avro", {"id": 7}, "avro-value")
    json_schema = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}'
    data = JSONSerializer(json_schema, client)({"id": 7}, at("json"))
    assert JSONDeserializer(json_schema, schema_registry_client=client)(data, at("json")) == {"id": 7}
    decoded = decoder.decode(data)
    assert decoded is not None
    assert (decoded.format, decoded.value) == ("json-schema", {"id": 7})
    order = order_message()
    message = order(id=7, at={"seconds": 5})
    data = ProtobufSerializer(order, client, {"use.deprecated.format": False})(message, at("protobuf"))
    assert ProtobufDeserializer(order, {"use.deprecated.format": False}, client)(data, at("protobuf")) == message
    decoded = decoder.decode(data)
    assert decoded is not None
    assert (decoded.format, decoded.value) == ("protobuf", {"id": "7", "at": "1970-01-01T00:00:05Z"})
    assert client.get_latest_version("avro-value").version == 1
    assert client.test_compatibility("avro-value", client.get_schema(client.get_latest_version("avro-value").schema_id))
    assert client.set_compatibility("avro-value", "FULL")
    assert client.get_compatibility("avro-value") == "FULL"
    assert sorted(client.get_subjects()) == ["avro-value", "json-value", "protobuf-value"]
    assert client.delete_subject("avro-value") == client.delete_subject("avro-value", permanent=True) == [1]


def test_franz_go_client_registers_and_reads_schemas(broker: Broker) -> None:
    try:
        program = go.built(Path(__file__).parent / "franz_go_sr")
    except Unavailable as missing:
        pytest.skip(str(missing))
    done = subprocess.run([program, broker.schema_registry_url], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [found[f"go-{kind}"] for kind in ("avro", "json", "proto")] == [
        [1, True, "AVRO", True],
        [1, True, "JSON", True],
        [1, True, "PROTOBUF", True],
    ]
    assert (found["read"], found["level"], found["refused"], found["deleted"]) == (7, "FULL", True, [[1], [1]])


def test_only_the_first_broker_of_a_cluster_has_a_schema_registry(tmp_path: Path) -> None:
    """The registry's topic has a replica on each broker, and the first broker leads it."""
    ready_file = tmp_path / "ready.json"
    command = [sys.executable, "-m", "ottla", "serve", "--brokers", "3", "--listen", "127.0.0.1:0", "--schema-registry=0"]
    command += ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready_file)]
    served = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: ready_file.exists() or served.poll() is not None)
        ready = json.loads(ready_file.read_text())
        urls = [one["schema_registry"]["url"] for one in ready["brokers"].values() if "schema_registry" in one]
        assert len(urls) == 1
        assert ask(urls[0], "POST", "/subjects/a/versions", {"schema": '"int"'}) == (200, {"id": 1})
        with KafkaClient(ready["bootstrap"]) as client:
            (partition,) = client.topic("_schemas").partitions
        assert (partition.leader, sorted(partition.replicas)) == (1, [1, 2, 3])
    finally:
        served.terminate()
        served.wait(60)


def test_schema_registry_requests_during_a_restart_are_answered_or_refused(broker: Broker) -> None:
    """After the end of a reset, no response contains schemas from before the reset."""
    url, failures, is_over = broker.schema_registry_url, [], threading.Event()

    def read() -> None:
        while not is_over.is_set():
            status, answer = ask(url, "GET", "/subjects")
            if status not in (200, 500):
                failures.append((status, answer))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(5):
            ask(url, "POST", f"/subjects/s{i}/versions", {"schema": '"int"'})
            broker.reset()
            assert ask(url, "GET", "/subjects") == (200, [])
    finally:
        is_over.set()
        reader.join()
    assert failures == []
