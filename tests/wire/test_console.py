"""The data of the console's pages, from a broker with real clients."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import Broker, Cluster
from ottla.client.kafka_client import KafkaClient
from ottla.console.actions.registry import carried_out
from ottla.console.site import MAX_PAGES
from ottla.control.faults.fault import Fault
from ottla.http.http_server import MAX_CONNECTIONS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(settings={"ottla.console": True}) as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Broker:
    shared.reset()
    return shared


class Page:
    """An open page of the console. ``next`` waits for the page's next event."""

    def __init__(self, broker: Broker, page_name: str, **query: object) -> None:
        control_api = urlsplit(broker.ready["control"]["url"])
        self._connection = http.client.HTTPConnection(str(control_api.hostname), control_api.port, timeout=60)
        token = {"Authorization": f"Bearer {broker.ready['control']['token']}"}
        self._connection.request("GET", f"/console/v1/{page_name}?{urlencode(query, quote_via=quote)}", headers=token)
        self.answer = self._connection.getresponse()
        self.status = self.answer.status

    def next(self) -> tuple[str, Any]:
        """Return the kind and the value of the next event."""
        while not (line := self.answer.readline()).startswith(b"event: "):
            assert line, "the event stream has ended"
        return line[7:-1].decode(), json.loads(self.answer.readline().removeprefix(b"data: "))

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@contextmanager
def opened(broker: Broker, page_name: str, **query: object) -> Iterator[Page]:
    page = Page(broker, page_name, **query)
    try:
        yield page
    finally:
        page.close()


def values(broker: Broker, page_name: str, **query: object) -> Any:
    with opened(broker, page_name, **query) as page:
        kind, value = page.next()
    assert kind == "values", value
    return value


def transactional(broker: Broker, transactional_id: str, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, **settings})
    producer.init_transactions(60)
    return producer


def write(producer: Producer, topic: str, *texts: bytes, partition: int = 0) -> None:
    producer.begin_transaction()
    for text in texts:
        producer.produce(topic, text, partition=partition)
    assert producer.flush(60) == 0


def test_console_topic_page_shows_transactions_and_offsets_of_a_partition(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    producer = transactional(broker, "shop", **{"client.id": "till"})
    write(producer, "orders", b"a", b"b")
    producer.commit_transaction(60)
    write(producer, "orders", b"c")
    producer.abort_transaction(60)
    write(producer, "orders", b"d")
    row, empty = values(broker, "topic", name="orders")["part"]["rows"]
    assert row == {
        "partition": 0,
        "leader": 1,
        "leader_epoch": 0,
        "log_start_offset": 0,
        "last_stable_offset": 5,
        "high_watermark": 6,
        "log_end_offset": 6,
        "aborted": [{"first_offset": 3, "last_offset": 4}],
        "markers": [2, 4],
        "open": [5],
    }
    assert (empty["log_end_offset"], empty["markers"]) == (0, [])
    listed = values(broker, "topics", match="ord")["part"]
    assert (listed["total"], listed["rows"][0]["offsets"], listed["rows"][0]["waiting"]) == (1, 6, 1)
    shown = values(broker, "overview")
    held = {"topic": "orders", "partition": 0, "last_stable_offset": 5, "high_watermark": 6, "transactional_id": "shop"}
    assert shown["held"] == [held]
    assert (shown["transactions"], shown["topics"], shown["partitions"]) == ({"Ongoing": 1}, 1, 2)
    (listed_id,) = values(broker, "transactions")["part"]["rows"]
    assert (listed_id["state"], listed_id["partitions"], listed_id["client"]) == ("Ongoing", 1, "client till at 127.0.0.1")


@pytest.mark.smoke
def test_console_shows_records_by_isolation_level(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    producer = transactional(broker, "shop")
    producer.begin_transaction()
    producer.produce("orders", b"\xff\x00", key="schlüssel".encode(), headers=[("n", b"1"), ("null", None)])
    producer.flush(60)
    producer.commit_transaction(60)
    write(producer, "orders", b"x" * 5_000)
    producer.abort_transaction(60)
    shown = {
        isolation: values(broker, "messages", topic="orders", isolation=isolation, order="oldest")
        for isolation in ("committed", "aborted", "all")
    }
    offsets = {level: [record["offset"] for record in page["records"]] for level, page in shown.items()}
    assert offsets == {"committed": [0, 1], "aborted": [2, 3], "all": [0, 1, 2, 3]}
    first, marker = shown["all"]["records"][:2]
    whole = {"is_cut": False, "is_json": False, "problem": ""}
    assert first["key"] == {"kind": "text", "text": "schlüssel", "size_bytes": 10, **whole}
    assert first["value"] == {"kind": "hex", "text": "ff 00", "size_bytes": 2, **whole}
    assert [header["name"] for header in first["headers"]] == ["n", "null"]
    assert (first["headers"][0]["value"]["text"], first["headers"][1]["value"]) == ("1", None)
    assert (marker["control"], first["control"]) == ("COMMIT", None)
    long = shown["all"]["records"][2]["value"]
    assert (len(long["text"]), long["size_bytes"]) == (1_000, 5_000)
    assert values(broker, "messages", topic="orders", isolation="all", order="oldest", **{"from": 3})["records"][0]["offset"] == 3


def test_console_record_page_shows_the_record_of_a_recreated_topic(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    broker.create_topic("again", 1)
    producer.produce("again", b"first", partition=0)
    assert producer.flush(60) == 0
    with opened(broker, "record", topic="again", partition=0, offset=0) as page:
        assert page.next()[1]["value"]["text"] == "first"
        broker.delete_topic("again")
        broker.create_topic("again", 1)
        producer.produce("again", b"second", partition=0)
        assert producer.flush(60) == 0
        wait_until(lambda: page.next()[1].get("value", {}).get("text") == "second")


def test_console_link_to_a_produced_record_shows_it_and_no_earlier_record(broker: Broker) -> None:
    broker.create_topic("linked", 1)
    for value in (b"before", b"linked"):
        body = json.dumps({"topic": "linked", "value": value.decode()}).encode()
        effects = carried_out("produce", body, lambda: KafkaClient(broker.bootstrap, 10.0), [], is_preview=False)
    shown = values(broker, effects["page"], **effects["parameters"])
    assert [record["value"]["text"] for record in shown["records"]] == ["linked"]


def test_console_shortens_text_values_at_a_character_boundary(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", "x€".encode() * 600)
    for not_text in (b"x" * 500 + b"\xff" * 600, b"caf\xe9 " + b"x" * 1_200, b"x" * 999 + b"\xe9", "€".encode()[:2]):
        producer.produce("orders", not_text)
    producer.flush(60)
    text, *others = (record["value"] for record in values(broker, "messages", topic="orders", order="oldest")["records"])
    assert (text["kind"], text["size_bytes"], text["text"]) == ("text", 2_400, "x€" * 500)
    assert [other["kind"] for other in others] == ["hex"] * 4
    assert others[1]["text"].startswith("63 61 66 e9 20 78")


@pytest.mark.smoke
def test_console_explains_why_a_group_waits_for_a_transaction(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    producer = transactional(broker, "shop", **{"client.id": "till"})
    write(producer, "orders", b"a")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    (row,) = values(broker, "groups")["part"]["rows"]
    assert (row["group_id"], row["lag"], row["state"]) == ("billing", 1, "Empty")
    group = values(broker, "group", name="billing")
    assert group["holders"] == ["shop"]
    assert "read_committed consumers of orders:0 are held at 0 of 1" in group["why"][1]
    assert "from client till at 127.0.0.1" in group["why"][1]
    consumer.close()


def test_console_page_of_an_open_transaction_is_updated_after_the_commit(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    producer = transactional(broker, "shop", **{"client.id": "till"})
    write(producer, "orders", b"a")
    with opened(broker, "transaction", id="shop") as page:
        before = page.next()[1]
        assert (before["state"], before["partitions"], before["client"]) == ("Ongoing", ["orders:0"], "client till at 127.0.0.1")
        producer.commit_transaction(60)
        while (after := page.next()[1])["state"] != "CompleteCommit":
            pass
    kinds = [event["kind"] for event in after["events"]]
    assert kinds[-1] == "complete"
    assert {"request", "init", "begin", "data", "decide", "marker"} <= set(kinds)


def test_console_shows_the_timeline_of_an_expired_transactional_id() -> None:
    settings = {
        "ottla.console": True,
        "transactional.id.expiration.ms": 100,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    }
    with Broker(settings=settings) as broker:
        broker.create_topic("orders", 1)
        producer = transactional(broker, "shop", **{"client.id": "till"})
        write(producer, "orders", b"a")
        producer.commit_transaction(60)
        wait_until(lambda: values(broker, "transactions")["part"]["total"] == 0)
        shown = values(broker, "transaction", id="shop")
        assert shown["state"] == "none: its coordinator no longer has the id"
        assert (shown["open_ms"], shown["partitions"], shown["client"]) == (None, [], "client till at 127.0.0.1")
        assert shown["producer_id"] >= 0
        assert {"init", "begin", "complete", "expire"} <= {event["kind"] for event in shown["events"]}


def test_console_shows_faults_and_no_fault_hits_console_requests(broker: Broker) -> None:
    """A fault for all requests does not count the console's requests, so an open page does not add hits."""
    broker.create_topic("orders", 1)
    any_request = broker.faults.add(Fault(api="*", observe=True))
    with opened(broker, "overview") as page:
        page.next()
        steering = values(broker, "steering")
        assert [fault["id"] for fault in steering["faults"]] == [any_request.id]
        values(broker, "messages", topic="orders")
    assert any_request.hits == 0
    named = broker.faults.add(Fault(api="Metadata", client_id="ottla-console", error="UNKNOWN_SERVER_ERROR"))
    with opened(broker, "messages", topic="orders") as page:
        page.next()
    assert named.hits == 1


@pytest.mark.parametrize(
    ("name", "query"), [("messages", {"topic": "orders", "isolation": "all"}), ("transaction", {"id": "shop"})]
)
def test_console_page_shows_a_fetch_error_and_retries(broker: Broker, name: str, query: dict[str, str]) -> None:
    broker.create_topic("orders", 1)
    write(transactional(broker, "shop"), "orders", b"a")
    fault = broker.faults.add(Fault(api="Fetch", client_id="ottla-console", error="UNKNOWN_SERVER_ERROR"))
    with opened(broker, name, **query) as page:
        kind, value = page.next()
        assert (kind, value["status"]) == ("refused", 409)
        assert "UNKNOWN_SERVER_ERROR" in value["error"]
        fault.remove()
        assert page.next()[0] == "values", "the page retries the fetch"


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("topic", {"name": "none"}, "unknown topic 'none'"),
        ("topic", {}, "name is missing"),
        ("messages", {"topic": "none"}, "unknown topic 'none'"),
        ("messages", {"topic": "orders", "partition": "1"}, "has no partition 1"),
        ("messages", {"topic": "orders", "partition": "9" * 18}, "is not a number or a range such as 2-5"),
        ("messages", {"topic": "orders", "isolation": "both"}, "isolation must be one of committed, aborted, all"),
        ("messages", {"topic": "orders", "from": "x"}, "from"),
        ("group", {"name": "none"}, "unknown group 'none'"),
        ("transaction", {"id": "none"}, "unknown transactional id 'none'"),
    ],
)
def test_console_reports_unknown_topics_groups_and_records_in_one_line(
    broker: Broker, name: str, query: dict[str, str], said: str
) -> None:
    broker.create_topic("orders", 1)
    with opened(broker, name, **query) as page:
        kind, value = page.next()
    assert kind == "refused"
    assert said in value["error"]
    assert "\n" not in value["error"]


def test_closed_console_page_can_be_replaced_by_another_page(broker: Broker) -> None:
    pages = [Page(broker, "overview") for _ in range(MAX_PAGES)]
    with opened(broker, "overview") as refused:
        assert refused.status == 409
    for page in pages:
        page.close()

    def is_served() -> bool:
        with opened(broker, "overview") as page:
            return page.status == 200

    wait_until(is_served, 2.0)


@pytest.mark.full
def test_stalled_console_browsers_do_not_block_kafka_clients(broker: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    """Each stalled page occupies a thread of the control API until its connection is full and a write has timed out."""
    broker.create_topic("orders", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    control_api = urlsplit(broker.ready["control"]["url"])
    request = f"GET /console/v1/messages?topic=orders HTTP/1.1\r\nHost: {control_api.netloc}\r\n"
    request += f"Authorization: Bearer {broker.ready['control']['token']}\r\n\r\n"
    stalled = []
    for _ in range(MAX_PAGES):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect((str(control_api.hostname), control_api.port))
        connection.sendall(request.encode())
        stalled.append(connection)

    def is_served() -> bool:
        # Each batch changes the data, so that open pages have something to send.
        for _ in range(100):
            producer.produce("orders", os.urandom(700))
        producer.flush(60)
        with opened(broker, "overview") as page:
            return page.status == 200

    wait_until(is_served)
    assert broker._control().get("/v1/state")["unexpected_errors"] == 0
    for connection in stalled:
        connection.close()
    assert not any("Traceback" in line for line in broker.logs)


def test_control_commands_are_answered_while_console_pages_are_open(broker: Broker) -> None:
    pages = [Page(broker, "overview") for _ in range(MAX_PAGES)]
    assert MAX_PAGES < MAX_CONNECTIONS / 2
    broker.faults.add(Fault(api="EndTxn", drop_answer=True))
    broker.pause()
    try:
        # The page keeps its data, and a message above the data says that the broker is paused.
        kinds = [page.next() for page in pages for _ in range(2)]
        assert any(kind == "refused" and "paused" in value["error"] for kind, value in kinds)
    finally:
        broker.resume()
        for page in pages:
            page.close()


def test_stopping_the_broker_ends_open_console_pages_at_once(tmp_path: Any) -> None:
    with Broker(settings={"ottla.console": True}, data_dir=tmp_path / "data") as broker:
        page = Page(broker, "overview")
        page.next()
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGTERM)
        wait_until(lambda: not broker.is_running)
        page.close()
        assert not any("Traceback" in line for line in broker.logs)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_console_shows_a_broker_with_an_unreachable_advertised_address(host: str) -> None:
    """A container's advertised port often differs from the port on which its broker listens."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        closed_port = bound.getsockname()[1]
    settings = {
        "ottla.console": True,
        "advertised.listeners": f"PLAINTEXT://localhost:{closed_port}",
    }
    with Broker(host=host, settings=settings) as broker:
        assert broker.ready["bootstrap"] == f"localhost:{closed_port}"
        (node,) = values(broker, "overview")["brokers"]
        assert node["address"] == f"localhost:{closed_port}"
        assert values(broker, "transactions")["part"]["total"] == 0
        with opened(broker, "transaction", id="none") as page:
            assert "unknown transactional id 'none'" in page.next()[1]["error"]


def when_loaded(broker: Broker, page_name: str) -> Any:
    """Return the values of a page once the broker's coordinators have loaded their logs."""
    with opened(broker, page_name) as page:
        kind, value = page.next()
        while kind != "values":
            kind, value = page.next()
    return value


def test_every_broker_of_a_cluster_has_a_console() -> None:
    with Cluster(2, settings={"ottla.console": True}) as cluster:
        ready = cluster._ready["brokers"]
        assert len({broker["console"] for broker in ready.values()}) == 2
        first, second = (cast(Any, SimpleNamespace(ready=ready[number])) for number in ("1", "2"))
        cluster.create_topic("orders", 1)
        groups = [f"group-{number}" for number in range(10)]
        for name in groups:
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name, "enable.auto.commit": False})
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            consumer.close()
        coordinated = {}
        for broker, other in ((first, 2), (second, 1)):
            shown = when_loaded(broker, "groups")
            assert shown["missing"] == [f"groups of broker {other}, which its own console shows"]
            assert when_loaded(broker, "overview")["missing"] == shown["missing"]
            coordinated[other] = [row["group_id"] for row in shown["part"]["rows"]]
        assert sorted(coordinated[1] + coordinated[2]) == groups
        with opened(first, "group", name=coordinated[1][0]) as page:
            assert page.next()[1]["error"] == f"broker 2 coordinates group '{coordinated[1][0]}'; see the console of that broker"
        cluster.kill(2)
        for page_name in ("overview", "groups", "transactions"):
            with opened(first, page_name) as page:
                assert page.next()[0] == "values"
