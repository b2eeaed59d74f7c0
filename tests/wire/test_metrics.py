"""Metrics in Prometheus format, and the settings that disable parts of KIP-890."""

from __future__ import annotations

import socket
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla import Broker
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = pytest.mark.wire

Samples = dict[str, list[tuple[dict[str, str], float]]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"ottla.metrics.port": 0, "transaction.max.timeout.ms": 60_000}) as broker:
        yield broker


def scrape(broker: Broker, at: str | urllib.request.Request = "") -> Samples:
    with urllib.request.urlopen(at or broker.ready["metrics"]) as answer:
        text = answer.read().decode()
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    return next(v for own, v in samples[name] if labels.items() <= own.items())


def test_unknown_path_on_the_metrics_port_returns_404(broker: Broker) -> None:
    url = broker.ready["metrics"]
    assert url.endswith("/metrics")
    assert scrape(broker, f"{url}?name%5B%5D=python_info") is not None
    for path in ("/", "/metric", "/metrics/x"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scrape(broker, url.replace("/metrics", path))


def test_metrics_can_be_requested_with_any_host_header(broker: Broker) -> None:
    request = urllib.request.Request(broker.ready["metrics"], headers={"Host": "ottla.shop.svc.cluster.local:9644"})
    assert scrape(broker, request) is not None


def test_control_api_serves_the_metrics_of_the_metrics_port(broker: Broker) -> None:
    """A client with the control API's token can read metrics there, so that Prometheus needs no second port."""
    control_api = broker.ready["control"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        scrape(broker, f"{control_api['url']}/metrics")
    token = {"Authorization": f"Bearer {control_api['token']}"}
    of_control_api = scrape(broker, urllib.request.Request(f"{control_api['url']}/metrics", headers=token))
    assert set(of_control_api) == set(scrape(broker))
    assert value(of_control_api, "kafka_server_replicamanager_partitioncount") >= 0
    broker.pause()
    try:
        with pytest.raises(urllib.error.HTTPError, match="409"):
            scrape(broker, urllib.request.Request(f"{control_api['url']}/metrics", headers=token))
    finally:
        broker.resume()


@pytest.mark.smoke
def test_broker_metrics_count_transactions(broker: Broker) -> None:
    world = World(Wire(broker), "ottla", "")
    perform(world, "topic m")
    before = scrape(broker)
    for how in ("commit", "commit", "abort"):
        for command in ("A = init m timeout=60000", "produce A m", "offsets A m m=1", f"{how} A"):
            perform(world, command)
    perform(world, "A = init m timeout=60000")
    assert perform(world, "produce A m seq=3 v=11") == "TRANSACTION_ABORTABLE"
    assert perform(world, "produce A m") == "NONE @6"
    after = scrape(broker)
    world.close()

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("ottla_txn_total", outcome="commit") == 2
    assert grown("ottla_txn_total", outcome="abort") == 1
    assert value(after, "ottla_txn_open") == 1
    assert grown("kafka_server_addpartitionstotxnmanager_verificationtimems_count_total") == 8
    assert grown("kafka_server_addpartitionstotxnmanager_verificationfailurerate_count_total") == 1
    assert value(after, "kafka_server_addpartitionstotxnmanager_verificationtimems", quantile="0.99") > 0
    assert value(after, "kafka_cluster_partition_laststableoffsetlag", topic="m", partition="0") == 1
    assert value(after, "kafka_consumergroup_lag", consumergroup="m", topic="m") == 6
    assert value(after, "kafka_consumergroup_lag_read_committed", consumergroup="m", topic="m") == 5
    assert value(after, "kafka_server_metadataloader_finalizedlevel", featurename="transaction.version") == 2
    assert value(after, "kafka_network_requestmetrics_requests_total", request="EndTxn", version="5") == 3
    assert value(after, "kafka_server_brokertopicmetrics_messagesin_total", topic="m") == 4
    assert value(after, "kafka_server_replicamanager_produceridcount") >= 1
    assert value(after, "kafka_server_replicamanager_partitionswithlatetransactionscount") == 0
    assert value(after, "process_open_fds") > 0


def test_gauges_survive_a_kill_and_all_metrics_begin_anew_after_a_reset() -> None:
    gauges = (
        "ottla_txn_open",
        "ottla_partition_lso",
        "kafka_cluster_partition_laststableoffsetlag",
        "kafka_consumergroup_lag",
        "kafka_consumergroup_lag_read_committed",
        "kafka_consumergroup_current_offset",
        "kafka_log_log_size",
        "kafka_server_replicamanager_leadercount",
        "kafka_server_replicamanager_produceridcount",
        "kafka_topic_partitions",
    )
    counters = ("ottla_txn_total", "ottla_txn_duration_seconds_count", "kafka_server_brokertopicmetrics_messagesin_total")
    with Broker(settings={"ottla.metrics.port": 0}) as broker:
        new = scrape(broker)
        world = World(Wire(broker), "ottla", "")
        for command in ("topic m", "A = init m", "produce A m", "offsets A m m=1", "commit A", "produce A m"):
            perform(world, command)
        world.close()
        before = scrape(broker)
        assert value(before, "ottla_txn_total", outcome="commit") == value(before, "ottla_txn_open") == 1
        broker.restart(kill=True)
        after = scrape(broker)
        assert {name: after.get(name) for name in gauges} == {name: before.get(name) for name in gauges}
        assert value(after, "ottla_txn_total", outcome="commit") == value(after, "ottla_txn_duration_seconds_count") == 0
        broker.reset()
        reset = scrape(broker)
        assert {name: reset.get(name) for name in gauges} == {name: new.get(name) for name in gauges}
        assert {name: reset.get(name) for name in counters} == {name: new.get(name) for name in counters}


def test_metrics_are_disabled_without_a_port() -> None:
    with Broker() as broker:
        assert "metrics" not in broker.ready


def test_silent_clients_of_the_metrics_port_use_few_threads_and_descriptors(broker: Broker) -> None:
    """The broker closes connections above its limit without a traceback."""
    where = urlsplit(broker.ready["metrics"])
    address = (str(where.hostname), int(where.port or 0))

    def threads() -> int:
        return len(list(Path(f"/proc/{broker.pid}/task").iterdir()))

    before = threads()
    clients = []
    for _ in range(60):
        clients.append(socket.create_connection(address, 5))
        clients[-1].sendall(b"GET /met")
        time.sleep(0.01)
    assert threads() - before <= 16
    for client in clients:
        # SO_LINGER with 0 s: closing sends a TCP reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    deadline = time.monotonic() + 10
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert scrape(broker)
    assert not [line for line in broker.logs if "Traceback" in line]
