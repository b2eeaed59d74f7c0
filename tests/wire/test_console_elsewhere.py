"""``ottla console`` for other clusters: ottla and Apache Kafka, with security, and with brokers that stop and restart."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from confluent_kafka import Consumer, Producer

from ottla import Broker
from ottla.cli import main
from ottla.client import KafkaClient, NewRecord
from ottla.client.security.client_config import Connecting
from ottla.console.elsewhere import console_server
from ottla.control.page_server import HOST, PageServer
from tests.support import unsound_directory
from tests.support.either_broker import EITHER, running
from tests.wire.secured import PASSWORD, SecuredBroker
from tests.wire.test_secured_commands import SETTINGS, client_properties

pytestmark = pytest.mark.wire

TIMEOUT_S = 30.0


class Site:
    """Sends a browser's requests to a console, whose address contains the token."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port
        self._token = parts.fragment.removeprefix("token=")

    def request(self, method: str, path: str, body: str | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        connection.request(method, path, body, {"Authorization": f"Bearer {self._token}"} | headers)
        return connection.getresponse()

    def events(self, page: str, **query: object) -> Iterator[tuple[str, Any]]:
        answer = self.request("GET", f"/console/v1/{page}?{urlencode(query, quote_via=quote)}")
        assert answer.status == 200, answer.read()
        deadline_s = time.monotonic() + TIMEOUT_S
        with answer:
            while line := answer.readline():
                assert time.monotonic() < deadline_s, "the page is not what the test waits for"
                if line.startswith(b"event: "):
                    yield line[7:-1].decode(), json.loads(answer.readline().removeprefix(b"data: "))

    def values(self, page: str, **query: object) -> Any:
        kind, value = next(self.events(page, **query))
        assert kind == "values", value
        return value

    def refusal(self, page: str, **query: object) -> tuple[int, str]:
        kind, value = next(self.events(page, **query))
        assert kind == "refused", value
        return value["status"], value["error"]

    def act(self, name: str, **parameters: object) -> Any:
        answer = self.request("POST", f"/console/actions/{name}", json.dumps(parameters))
        document = json.loads(answer.read())
        assert answer.status == 200, document
        return document

    def wait(self, condition: Callable[[str, Any], bool], page: str, **query: object) -> Any:
        """Return the first event of a page that meets a condition."""
        return next(value for kind, value in self.events(page, **query) if condition(kind, value))


@contextmanager
def served(
    bootstrap: str, properties: dict[str, str] | None = None, *, host: str = HOST, is_read_only: bool = False
) -> Iterator[Site]:
    connecting = Connecting.parse({"bootstrap.servers": bootstrap, **(properties or {})}, prefix="")
    server: PageServer = console_server(bootstrap, connecting, host=host, is_read_only=is_read_only)
    server.serve()
    try:
        yield Site(server.url)
    finally:
        server.close()


@pytest.fixture(scope="module", params=EITHER)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker: each test runs with ottla and with Apache Kafka. The tests change both in the same order."""
    with running(request.param, tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap


@pytest.fixture
def site(bootstrap: str) -> Iterator[Site]:
    with served(bootstrap) as site:
        yield site


@pytest.fixture
def client(bootstrap: str) -> Iterator[KafkaClient]:
    with KafkaClient(bootstrap, TIMEOUT_S) as client:
        yield client


def test_console_pages_show_topics_records_and_sizes(site: Site, client: KafkaClient) -> None:
    client.create_topic("orders", 2)
    client.produce("orders", [NewRecord(value=b'{"id": 1}', partition=0), NewRecord(value=b"two", partition=1)])
    overview = site.values("overview")
    assert (overview["cluster_id"], overview["is_sound"], overview["faults"]) == (client.brokers.cluster_id(), True, 0)
    assert [broker["node_id"] for broker in overview["brokers"]] == [1]
    row = next(row for row in site.values("topics")["part"]["rows"] if row["name"] == "orders")
    assert (row["partitions"], row["replicas"], row["offsets"], row["waiting"], row["is_internal"]) == (2, 1, 2, 0, False)
    assert 100 < row["size_bytes"] < 1_000
    first, second = site.values("topic", name="orders")["part"]["rows"]
    assert (first["partition"], first["leader"], first["log_start_offset"], first["high_watermark"]) == (0, 1, 0, 1)
    assert second["last_stable_offset"] == 1
    shown = site.values("messages", topic="orders")
    assert {record["value"]["text"] for record in shown["records"]} == {'{"id": 1}', "two"}
    assert site.values("record", topic="orders", partition=1, offset=0)["value"]["text"] == "two"
    assert site.values("found", match="orde")["topics"] == ["orders"]
    names = {row["name"] for row in site.values("configs", kind="topic", name="orders")["rows"]}
    assert "retention.ms" in names


def test_open_console_page_is_updated_after_a_change(site: Site, client: KafkaClient) -> None:
    client.create_topic("live", 1)
    pages = site.events("messages", topic="live")
    assert next(pages)[1]["records"] == []
    client.produce("live", [NewRecord(value=b"new")])
    assert [record["value"]["text"] for record in next(pages)[1]["records"]] == ["new"]


def test_console_pages_show_transactions_and_groups_that_wait_for_them(site: Site, bootstrap: str, client: KafkaClient) -> None:
    client.create_topic("input", 1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shop"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("input", b"pending", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.subscribe(["input"])
    site.wait(lambda kind, value: kind == "values" and bool(value["members"]), "group", name="billing")
    listed = next(row for row in site.values("groups")["part"]["rows"] if row["group_id"] == "billing")
    assert (listed["lag"], listed["uncommitted"], listed["problem"]) == (0, 1, "")
    group = site.values("group", name="billing")
    assert group["holders"] == ["shop"]
    assert any("input:0" in line for line in group["why"]), group["why"]
    assert any(line.endswith(f"ottla txn abort --bootstrap {bootstrap} shop") for line in group["why"]), group["why"]
    row = next(row for row in site.values("transactions")["part"]["rows"] if row["transactional_id"] == "shop")
    assert (row["state"], row["partitions"], row["client"]) == ("Ongoing", 1, "")
    shown = site.values("transaction", id="shop")
    assert (shown["state"], shown["partitions"]) == ("Ongoing", ["input:0"])
    assert [event["kind"] for event in shown["events"]], "the log has events"
    held = site.values("overview")["held"]
    assert [(one["topic"], one["last_stable_offset"], one["high_watermark"]) for one in held] == [("input", 0, 1)]
    assert held[0]["transactional_id"] == "shop"
    site.act("abort-transaction", id="shop", producer_id=row["producer_id"], producer_epoch=int(shown["producer_epoch"]))
    site.wait(lambda kind, value: kind == "values" and value["state"] in ("CompleteAbort", "Empty"), "transaction", id="shop")
    consumer.close()


def test_console_executes_actions_and_returns_404_for_unknown_action_names(site: Site, bootstrap: str) -> None:
    created = site.act("create-topic", topic="made", partitions=3)
    assert created["said"] == "topic made was created"
    preview = json.loads(site.request("POST", "/console/previews/delete-topic", '{"topic": "made"}').read())
    assert preview["command"] == f"ottla topic delete made --bootstrap {bootstrap}"
    site.act("delete-topic", topic="made")
    site.wait(lambda kind, value: kind == "refused" and value["status"] == 404, "topic", name="made")
    for page, query in (("topic", {"name": "none"}), ("group", {"name": "none"}), ("messages", {"topic": "none"})):
        assert site.refusal(page, **query)[0] == 404
    assert site.refusal("transaction", id="none")[0] == 404


def test_console_of_another_cluster_has_no_fault_page_and_no_control_api(site: Site) -> None:
    answer = site.request("GET", "/console/v1/steering")
    assert answer.status == 404
    assert b"isElsewhere = true" in site.request("GET", "/console/mode.js").read()
    assert site.request("POST", "/v1/faults", "{}").status == 404


def test_console_overview_shows_stray_directories_and_damaged_segments(tmp_path: Path) -> None:
    unsound = unsound_directory.make(tmp_path / "data")
    with Broker(data_dir=unsound.path) as broker, served(broker.bootstrap) as site:

        def is_measured(kind: str, value: Any) -> bool:
            return kind == "values" and "unknown number" not in str(value["reported_strays"])

        overview = site.wait(is_measured, "overview")
        (stray,) = overview["reported_strays"]
        assert (stray["broker_id"], overview["more_reported_strays"]) == (1, 0)
        assert stray["text"].startswith(f"{unsound.stray()}: ")
        assert f"ottla adopt --from {unsound.stray()} --data-dir {unsound.path}" in stray["text"]
        assert overview["is_sound"], overview["problems"]
        unsound_directory.read_damage(broker.bootstrap)
        overview = site.wait(lambda kind, value: kind == "values" and not value["is_sound"], "overview")
        (problem,) = overview["problems"]
        assert problem.startswith(f"broker 1: {unsound.problem}")


def test_console_refuses_requests_without_token_or_from_other_sites(site: Site, bootstrap: str) -> None:
    assert site.request("GET", "/console/v1/overview", Authorization="Bearer wrong").status == 401
    assert site.request("GET", "/console/", Host="evil.example").status == 403
    body = '{"topic": "x"}'
    assert site.request("POST", "/console/actions/create-topic", body, Origin="http://evil.example").status == 403
    assert site.request("POST", "/console/actions/create-topic", body, Authorization="").status == 401
    assert site.request("DELETE", "/console/v1/overview").status == 405
    with served(bootstrap, is_read_only=True) as read_only:
        answer = read_only.request("POST", "/console/actions/create-topic", body)
        assert (answer.status, json.loads(answer.read())["error"]) == (
            403,
            "the console is read-only; start it without --read-only to change anything",
        )


def test_console_pages_continue_after_a_broker_restart(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        bootstrap = broker.bootstrap
        broker.create_topic("kept", 1)
    with served(bootstrap) as site:
        status, error = site.refusal("topics")
        assert status == 409
        assert "does not answer" in error
        pages = site.events("topics")
        assert next(pages)[0] == "refused"
        with Broker(data_dir=tmp_path / "data", port=int(bootstrap.rpartition(":")[2])):
            rows = next(value for kind, value in pages if kind == "values")["part"]["rows"]
            assert [row["name"] for row in rows] == ["kept"]
        assert next(kind for kind, _ in pages if kind == "refused") == "refused"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"), SETTINGS)
    try:
        yield broker
    finally:
        broker.close()


def test_console_command_serves_a_secured_cluster_until_it_is_interrupted(secured: SecuredBroker, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    properties = client_properties(secured, "SASL_SSL")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [sys.executable, "-m", "ottla", "console", "--command-config", str(file), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["bootstrap"] == properties["bootstrap.servers"]
        site = Site(ready["console"])
        assert site.values("overview")["is_sound"]
        preview = json.loads(site.request("POST", "/console/previews/create-topic", '{"topic": "t"}').read())
        assert f"--command-config {file}" in preview["command"]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def test_console_pages_show_that_the_sasl_password_is_wrong(secured: SecuredBroker) -> None:
    properties = client_properties(secured, "SASL_PLAINTEXT")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORD, "wrong")
    with served(properties["bootstrap.servers"], properties) as site:
        status, error = site.refusal("topics")
    assert status == 409
    assert "SCRAM-SHA-512" in error


def test_console_command_refuses_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with served("127.0.0.1:1") as site:
        assert main(["console", "--port", str(site._port)]) == 2
    assert capsys.readouterr().err.startswith(f"ottla: cannot open port {site._port} on 127.0.0.1: ")


@pytest.mark.parametrize(("host", "says"), [("localhost", 200), ("console", 200), ("console.example", 403)])
def test_console_on_all_interfaces_accepts_only_container_names_in_the_host_header(host: str, says: int) -> None:
    """A site could resolve its own name to this machine, so the console refuses names of other sites in the Host header."""
    with served("127.0.0.1:1", host="0.0.0.0") as site:
        assert site._host == "127.0.0.1"
        assert site.request("GET", "/console/", Host=f"{host}:{site._port}").status == says
        site._token = "wrong"
        assert site.request("GET", "/console/v1/topics").status == 401
