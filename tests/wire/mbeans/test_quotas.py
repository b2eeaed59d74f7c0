"""The metrics of quotas equal Apache Kafka's MBeans after the same requests.

Samples of an hour make the rates nearly independent of the time between two requests. tests/broker/metrics compares exact values.
"""

from __future__ import annotations

import math
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.admin.quotas import alter_quotas
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.raw_client import RawClient, create
from tests.wire.mbeans.reading import MBeanReader, with_agent
from tests.wire.test_quotas import fetch, produce
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.java]

SAMPLE_S = 3_600
SETTINGS = {f"{of}quota.window.size.seconds": str(SAMPLE_S) for of in ("", "controller.")}
GROUPS = ("Produce", "Fetch", "Request", "ControllerMutation")
CLIENT = {"user": "", "client_id": "app"}
IP = {"ip": "127.0.0.1"}
PARTITIONS = 100
Measured = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Values by the name and the labels of the metric."""


def of_kafka(reader: MBeanReader) -> Measured:
    """The attributes of the MBeans of clients and addresses, under the names that ottla exports."""
    measured: Measured = {}
    for group in (*GROUPS, "socket-server-metrics"):
        for bean in reader.read(f"kafka.server:type={group},*"):
            tags = {tag.replace("-", "_"): text for tag, text in bean.tags.items() if tag != "type"}
            if tags and tags.keys() <= CLIENT.keys():
                # Kafka leaves out a tag without a value. MBeans without any tag are about all clients.
                tags = dict.fromkeys(CLIENT, "") | tags
            elif tags.keys() != IP.keys():
                continue
            for name, value in bean.values.items():
                measured[f"kafka_server_{group}_{name}".replace("-", "_").lower(), frozenset(tags.items())] = value
    return measured


def of_ottla(broker: Broker) -> Measured:
    with urllib.request.urlopen(broker.ready["metrics"]) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.keys() in (CLIENT.keys(), IP.keys())
    }


@pytest.fixture
def ottla() -> Iterator[tuple[str, Callable[[], Measured]]]:
    with Broker(settings={**SETTINGS, "ottla.metrics.port": 0}) as broker:
        yield broker.bootstrap, lambda: of_ottla(broker)


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Callable[[], Measured]]]:
    port = free_port()
    made = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS, jvm=with_agent(port))
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        with MBeanReader(port) as reader:
            yield made.bootstrap, lambda: of_kafka(reader)
    finally:
        made.stop()


def use_quotas(bootstrap: str, read: Callable[[], Measured]) -> Measured:
    """Use each quota, so that all but that of the fetches and of the connections are exceeded, and return the metrics."""
    with RawClient(bootstrap) as admin:
        create(admin, "t")
    app = {"producer_byte_rate": 1, "consumer_byte_rate": 10, "controller_mutation_rate": 0.001, "request_percentage": 100}
    with KafkaClient(bootstrap) as client:
        alter_quotas(client.brokers, {"client-id": "app"}, app)
        alter_quotas(client.brokers, {"ip": "127.0.0.1"}, {"connection_creation_rate": 1})
    # A throttled client's connection is not read for hours, so each request has its own.
    with ExitStack() as connections:
        producer, consumer, creator = (connections.enter_context(RawClient(bootstrap, "app")) for _ in range(3))
        assert producer.call(produce(60_000), 9).throttle_time_ms > 0
        assert consumer.call(fetch(0), 11).responses[0].partitions[0].records
        topic = CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1)
        assert creator.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).throttle_time_ms > 0
        return read()


def test_quota_metrics_equal_those_of_kafka_after_the_same_requests(
    ottla: tuple[str, Callable[[], Measured]], kafka: tuple[str, Callable[[], Measured]]
) -> None:
    ours, kafkas = use_quotas(*ottla), use_quotas(*kafka)
    assert ours.keys() == kafkas.keys()
    of_app = {key for key in ours if dict(key[1]) in (CLIENT, IP)}
    assert len(of_app) == 2 * len(GROUPS) + 2
    app = frozenset(CLIENT.items())
    # Kafka's controller measures the changes of partitions, and the broker that throttles the client attributes the time to the
    # quota of request times (RequestHandlerHelper.sendForwardedResponse).
    mutation, request = (f"kafka_server_{group}_throttle_time" for group in ("controllermutation", "request"))
    assert math.isnan(ours[request, app]) and math.isnan(kafkas[mutation, app])
    assert ours[mutation, app] == pytest.approx(kafkas[request, app], rel=0.01)
    # The time of a request differs between two brokers, and the rate of changes is that of the last minute.
    timed = {("kafka_server_request_request_time", app), ("kafka_server_controllermutation_mutation_rate", app)}
    for key in of_app - timed - {(mutation, app), (request, app)}:
        assert ours[key] == pytest.approx(kafkas[key], rel=0.01, nan_ok=True), key
    assert ours["kafka_server_controllermutation_tokens", app] == pytest.approx(39.6 - PARTITIONS, rel=0.01)
