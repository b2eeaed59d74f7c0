"""A running broker is controlled with a `Broker` object, with HTTP requests and on the command line."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla import Broker, ControlError
from ottla.broker.loop.env import free_port
from ottla.client import ClientError, KafkaClient
from ottla.control.faults.registry import Fault, FaultError
from ottla.control.http_api import MAX_WAITING
from ottla.control.page_requests import MAX_ERROR_CHARS
from ottla.control.remote import Remote
from ottla.http.http_server import MAX_CONNECTIONS
from tests.wire.test_cli import TIMEOUT_S, serving

pytestmark = pytest.mark.wire

FAULTS_PAGE = Path(__file__).parent.parent.parent / "docs" / "faults.md"


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Broker:
    if not shared.is_running:
        shared.start()
    shared.reset()
    return shared


def producer(broker: Broker, transactional_id: str = "shop", **settings: Any) -> Producer:
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, **settings})
    made.init_transactions(60)
    return made


def write(made: Producer, value: bytes, *, commit: bool = True) -> None:
    made.begin_transaction()
    made.produce("orders", value)
    assert made.flush(60) == 0
    if commit:
        made.commit_transaction(60)
    else:
        made.abort_transaction(60)


def test_broker_object_creates_topics_and_reads_records(broker: Broker) -> None:
    broker.create_topic("orders", 1, {"retention.ms": "86400000"})
    with pytest.raises(ClientError, match="orders"):
        broker.create_topic("orders")
    made = producer(broker)
    write(made, b"paid")
    write(made, b"never", commit=False)
    made.begin_transaction()
    made.produce("orders", b"open")
    assert made.flush(60) == 0
    assert [record.value for record in broker.records("orders")] == [b"paid"]
    assert [record.value for record in broker.records("orders", "aborted")] == [b"never"]
    assert [record.value for record in broker.records("orders", "all")] == [b"paid", b"never", b"open"]
    assert broker.describe_transaction("shop").state == "Ongoing"
    made.abort_transaction(60)
    assert broker.wait_for(lambda: broker.describe_transaction("shop").state == "CompleteAbort")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    consumer.close()
    assert broker.lag("readers") == {("orders", 0): 4}
    with pytest.raises(TimeoutError, match=r"Condition not met within 0.1 s; last value: \{\}"):
        broker.wait_for(dict, 0.1)


def test_topic_created_by_broker_object_has_the_default_partition_count() -> None:
    with Broker(settings={"num.partitions": 3}) as broker:
        broker.create_topic("orders")
        broker.create_topic("payments", 2)
        with KafkaClient(broker.bootstrap) as cluster:
            assert {topic.name: topic.partitions for topic in cluster.topics()} == {"orders": 3, "payments": 2}


def test_transaction_whose_commit_response_is_dropped_is_committed_once(broker: Broker) -> None:
    made = producer(broker, **{"socket.timeout.ms": 1_000})
    made.begin_transaction()
    made.produce("orders", b"once")
    assert made.flush(60) == 0
    with broker.faults.add(api="EndTxn", transactional_id="sh*", drop_answer=True) as lost:
        made.commit_transaction(60)
        assert lost.hits == 1
    assert [record.value for record in broker.records("orders")] == [b"once"]


def test_program_in_the_fault_documentation_runs() -> None:
    def run_my_application(bootstrap: str) -> None:
        made = Producer({"bootstrap.servers": bootstrap, "transactional.id": "checkout-1", "socket.timeout.ms": 1_000})
        made.init_transactions(60)
        write(made, b"paid")

    program, _ = re.findall(r"```python\n(.*?)```", FAULTS_PAGE.read_text(), re.DOTALL)
    # The program's last lines evaluate expressions without printing, so they are changed to record their values.
    names: dict[str, Any] = {"run_my_application": run_my_application, "seen": []}
    exec(re.sub(r"^( +)(lost\.(?:hits|view\(\).*?))  #", r"\1seen.append(\2)  #", program, flags=re.MULTILINE), names)
    hits, newest_hits = names["seen"]
    assert (hits, [hit["api"] for hit in newest_hits]) == (1, ["EndTxn"])


def test_typed_faults_in_the_fault_documentation_run(broker: Broker) -> None:
    def run_my_application(bootstrap: str) -> None:
        made = Producer({"bootstrap.servers": bootstrap, "transactional.id": "checkout-1"})
        made.init_transactions(60)
        write(made, b"paid")

    _, program = re.findall(r"```python\n(.*?)```", FAULTS_PAGE.read_text(), re.DOTALL)
    exec(program, {"broker": broker, "run_my_application": run_my_application})
    assert [fault.view()["fault"]["api"] for fault in broker.faults.all()] == ["Produce", "Fetch"]


def test_fault_hits_can_be_awaited_and_the_fault_removed(broker: Broker) -> None:
    made = producer(broker)
    held = broker.faults.add(Fault(api="AddOffsetsToTxn", observe=True))
    with pytest.raises(TimeoutError, match="was triggered 0 times in"):
        held.wait(timeout_s=0.1)
    seen = broker.faults.add(api="EndTxn", observe=True)
    write(made, b"1")
    seen.wait(1)
    write(made, b"2")
    seen.wait(2)
    assert [hit["request"]["committed"] for hit in seen.view()["newest_hits"]] == [True, True]
    assert [fault.id for fault in broker.faults.all()] == [held.id, seen.id]
    seen.remove()
    seen.remove()
    broker.faults.clear()
    assert broker.faults.all() == []
    with pytest.raises(ControlError, match="unknown fault"):
        assert seen.hits


def test_waiting_control_requests_leave_connections_for_other_control_requests(broker: Broker) -> None:
    never = broker.faults.add(api="EndTxn", observe=True)

    def wait() -> Exception | None:
        try:
            never.wait(timeout_s=20)
        except (ControlError, TimeoutError) as error:
            return error
        return None

    with ThreadPoolExecutor(MAX_CONNECTIONS) as pool:
        waiting = [pool.submit(wait) for _ in range(MAX_WAITING + 2)]
        refused = [next(as_completed(waiting)).result(), next(as_completed(waiting)).result()]
        assert all("requests are waiting already" in str(error) for error in refused)
        broker.pause()
        broker.resume()
        write(producer(broker), b"1")
        assert [done.result() for done in waiting].count(None) == MAX_WAITING


@pytest.mark.smoke
def test_broker_killed_inside_a_commit_completes_the_transaction(broker: Broker) -> None:
    """The decision is logged, so the transaction is completed after the restart, although the client got no response."""
    made = producer(broker, **{"socket.timeout.ms": 1_000})
    made.begin_transaction()
    made.produce("orders", b"decided")
    assert made.flush(60) == 0
    broker.faults.add(kill="after-prepare")
    with pytest.raises(KafkaException) as caught:
        made.commit_transaction(1)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    broker.wait_for(lambda: not broker.is_running)
    broker.restart(kill=True)
    broker.wait_for(lambda: [record.value for record in broker.records("orders")] == [b"decided"])
    assert broker.faults.all() == [], "a restarted broker has no faults"


def test_reset_of_a_broker_removes_its_faults(broker: Broker) -> None:
    broker.faults.add(api="Metadata", error="UNKNOWN_SERVER_ERROR", times=None)
    broker.reset()
    broker.create_topic("orders")


def test_broker_reset_recreates_initial_topics_but_not_initial_faults(tmp_path: Path) -> None:
    faults_file = tmp_path / "faults.yaml"
    faults_file.write_text("{api: Heartbeat, delay_ms: 1}")
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--control-port", "0")
    with serving(*arguments, "--topic", "first:2", "--faults", str(faults_file)) as (_, said):
        control: Any = said["control"]
        control_api = Remote(control["url"], control["token"])
        assert len(control_api.get("/v1/faults")) == 1
        with KafkaClient(str(said["bootstrap"])) as cluster:
            cluster.create_topic("later", 1, {})
        control_api.post("/v1/reset")
        assert control_api.get("/v1/faults") == []
        with KafkaClient(str(said["bootstrap"])) as cluster:
            assert {topic.name: topic.partitions for topic in cluster.topics()} == {"first": 2}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"api": "EndTx", "drop_answer": True}, "unknown API 'EndTx'; did you mean EndTxn"),
        ({"api": "EndTxn", "error": "NO_SUCH"}, "NO_SUCH"),
        ({"api": "EndTxn"}, "the fault does nothing"),
        ({"kind": "EndTxn"}, "unknown field 'kind'"),
    ],
)
def test_control_api_refuses_an_invalid_fault(broker: Broker, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(FaultError, match=told):
        broker.faults.add(**fields)


def ask(broker: Broker, method: str, path: str, body: str = "", token: str | None = None) -> tuple[int, Any]:
    control = broker.ready["control"]
    where = urlsplit(control["url"])
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    given = control["token"] if token is None else token
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {given}"} if given else {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_control_api_refuses_requests_without_the_token(broker: Broker) -> None:
    for token in ("", "wrong", "é"):
        for method, path in (("GET", "/v1/state"), ("POST", "/v1/reset"), ("POST", "/v1/pause"), ("GET", "/v1/nothing")):
            status, answer = ask(broker, method, path, token=token)
            assert (
                status,
                answer["error"].startswith("the token is missing or wrong; send the header Authorization: Bearer TOKEN"),
            ) == (401, True)


def test_control_api_refuses_get_requests_for_commands(broker: Broker) -> None:
    for path in ("/v1/reset", "/v1/pause", "/v1/resume", "/v1/snapshot", "/v1/clock/advance"):
        status, answer = ask(broker, "GET", path)
        assert (status, f"{path} does not accept GET; use POST" in answer["error"]) == (405, True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/v1/nothing", "", 404, "unknown path /v1/nothing; the paths are /metrics, /v1/clock"),
        ("GET", "/v1/faults/7", "", 404, "unknown fault 7; there are no faults"),
        ("GET", "/v1/faults/seven", "", 404, "unknown path /v1/faults/seven"),
        ("POST", "/v1/reset", '{"now": true}', 400, "the body does not have the expected form"),
        ("POST", "/v1/snapshot", "{", 400, "the body does not have the expected form"),
        ("POST", "/v1/snapshot", '{"path": "/proc/none/x"}', 409, "/proc/none"),
        ("POST", "/v1/snapshot", json.dumps({"path": "/" + "x" * 10_000}), 409, "File name too long; the partial copy was removed"),
        ("POST", "/v1/restore", json.dumps({"path": "/" + "x" * 10_000}), 409, "File name too long"),
        ("GET", "/v1/" + "x" * 10_000, "", 404, "; the paths are /metrics, /v1/clock"),
        ("GET", f"/v1/transactions/{'x' * 10_000}/history", "", 404, "since the broker's process began"),
        ("POST", "/v1/snapshot", '{"path": ""}', 400, "the path must be an absolute path on the broker's machine"),
        ("POST", "/v1/snapshot", '{"path": "here"}', 400, "the path must be an absolute path on the broker's machine"),
        ("POST", "/v1/snapshot", '{"path": "/a\\u0000b"}', 400, "the path must be an absolute path on the broker's machine"),
        ("POST", "/v1/restore", '{"path": "/a\\u0000b"}', 400, "the path must be an absolute path on the broker's machine"),
        ("POST", "/v1/faults", "api: EndTx\ndrop_answer: true", 400, "did you mean EndTxn"),
        ("POST", "/v1/faults", f'{{"api": {"9" * 5_000}}}', 400, "a number is too large; the numbers of a fault are at most"),
        ("POST", "/v1/faults", "api: 2001-13-45", 400, "neither JSON nor YAML: month must be in 1..12"),
        ("POST", "/v1/faults", "x" * (1 << 20), 400, "bytes; at most"),
        ("POST", "/v1/faults", "x" * ((1 << 20) + 1), 413, "the body is too large; at most 1048576 bytes are allowed"),
    ],
)
def test_control_api_reports_invalid_requests_in_one_line(
    broker: Broker, method: str, path: str, body: str, status: int, told: str
) -> None:
    got, answer = ask(broker, method, path, body)
    assert (got, told in answer["error"]) == (status, True), answer
    assert len(answer["error"]) <= MAX_ERROR_CHARS
    assert broker.is_running
    assert ask(broker, "GET", "/v1/state")[1]["unexpected_errors"] == 0


def test_control_api_reads_a_chunked_body(broker: Broker) -> None:
    """`curl -H 'Transfer-Encoding: chunked'` sends a chunked body. If it were ignored, its fault would be lost silently."""
    control = broker.ready["control"]
    where = urlsplit(control["url"])
    with closing(http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {control['token']}"}
        body = iter([b'{"api": "EndTxn", ', b'"observe": true}'])
        connection.request("POST", "/v1/faults", body, headers, encode_chunked=True)
        response = connection.getresponse()
        response.read()
    assert response.status == 200
    assert len(broker.faults.all()) == 1


def test_control_api_returns_the_history_of_a_transactional_id(broker: Broker, tmp_path: Path) -> None:
    """The history shows why a producer was fenced, and why a consumer waits."""
    ready_file = tmp_path / "ready.json"
    ready_file.write_text(json.dumps(broker.ready))
    where = ("--ready-file", str(ready_file))
    broker.create_topic("orders")
    name = "shop/zürich 1"
    first = producer(broker, name, **{"client.id": "first"})
    write(first, b"paid")
    first.begin_transaction()
    first.produce("orders", b"held")
    assert first.flush(60) == 0
    first.produce("orders", b"late")
    second = producer(broker, name, **{"client.id": "second"})
    with pytest.raises(KafkaException):
        first.commit_transaction(60)
    second.begin_transaction()
    second.produce("orders", b"open")
    assert second.flush(60) == 0

    history = broker.history(name)
    assert (history["holder"]["client_id"], history["holder"]["client_host"]) == ("second", "127.0.0.1")
    (fenced,) = [event for event in history["events"] if event["kind"] == "fenced"]
    assert fenced["client_id"] == "second"
    assert any(event["client_id"] == "first" and "error" in event for event in history["events"] if event["kind"] == "request")
    why = ottla("txn", "why", "orders", *where)
    assert f"transactional id {name} from client second at 127.0.0.1, open for " in why
    kinds = [event["kind"] for event in json.loads(ottla("txn", "timeline", name, "--json", *where))]
    assert {"request", "refused", "fenced", "reason", "init", "data", "decide", "marker", "complete"} <= set(kinds)
    assert "from client first at 127.0.0.1" in ottla("txn", "timeline", name, *where)
    assert "participant K0 as client first at 127.0.0.1" in ottla("txn", "timeline", name, "--mermaid", *where)
    # Without the control API, the timeline contains only the records of Kafka's logs.
    logged = json.loads(ottla("txn", "timeline", name, "--json", "--bootstrap", broker.bootstrap))
    assert {event["kind"] for event in logged}.isdisjoint({"request", "refused", "fenced"})
    with pytest.raises(ControlError, match="unknown transactional id 'nobody'"):
        broker.history("nobody")
    assert "unknown transactional id" in ottla("txn", "timeline", b"\xff".decode(errors="surrogateescape"), *where, code=2)
    assert "does not exist: no broker is ready" in ottla("txn", "why", "orders", "--ready-file", str(tmp_path / "none"), code=2)
    second.abort_transaction(60)
    broker.reset()
    with pytest.raises(ControlError, match="unknown transactional id"):
        broker.history(name)


def test_control_api_accepts_faults_as_yaml(broker: Broker) -> None:
    status, added = ask(broker, "POST", "/v1/faults", "- api: Fetch\n  delay_ms: 5\n- {api: Produce, error: 6, times: 2}\n")
    assert (status, [one["fault"]["api"] for one in added]) == (200, ["Fetch", "Produce"])


def test_commands_do_not_use_the_control_api_of_another_cluster(broker: Broker, tmp_path: Path) -> None:
    def timeline(*where: str, environment: Path | None = None, code: int = 0) -> tuple[str, str]:
        command = [sys.executable, "-m", "ottla", "txn", "timeline", "shop", *where]
        variables = os.environ | ({} if environment is None else {"OTTLA_READY_FILE": str(environment)})
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=variables)
        assert done.returncode == code, done
        return done.stdout, done.stderr

    def ready_file(name: str, said: dict[str, Any]) -> Path:
        file = tmp_path / name
        file.write_text(json.dumps(said))
        return file

    own = ready_file("own", broker.ready)
    with Broker() as other:
        for one, client_id in ((broker, "here"), (other, "there")):
            one.create_topic("orders")
            write(producer(one, **{"client.id": client_id}), b"paid")
        at_other = ("--bootstrap", other.bootstrap)
        assert "from client here" in timeline("--bootstrap", broker.bootstrap, environment=own)[0]
        assert "from client" not in timeline(*at_other, environment=own)[0]
        _, said = timeline(*at_other, "--ready-file", str(own), code=2)
        assert said.endswith(" belongs to another cluster than --bootstrap; give addresses of one cluster\n")
        dead = ready_file("dead", broker.ready | {"control": {"url": f"http://127.0.0.1:{free_port('127.0.0.1')}", "token": "t"}})
        shown, said = timeline(*at_other, environment=dead)
        assert "commit is decided" in shown
        assert said.endswith("; the requests to that broker are not shown\n")
        # The ready file of `serve --brokers` contains a control API for each broker.
        shown, said = timeline(*at_other, environment=ready_file("several", {"brokers": {"1": broker.ready}}))
        assert "commit is decided" in shown
        assert "has a control API for each broker; give --url and --token of one broker" in said


def ottla(*arguments: str, code: int = 0, given: str | None = None) -> str:
    command = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, input=given)
    assert done.returncode == code, done
    return (done.stdout or done.stderr).strip()


def test_faults_and_clock_are_controlled_on_the_command_line(tmp_path: Path) -> None:
    ready_file, faults_file = tmp_path / "ready.json", tmp_path / "faults.yaml"
    faults_file.write_text("{api: Heartbeat, delay_ms: 1}")
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--ready-file", str(ready_file))
    controlled = ("--control-port", "0", "--clock", "manual:1700000000000", "--faults", str(faults_file))
    where = ("--ready-file", str(ready_file))
    with serving(*arguments, *controlled) as (process, _):
        assert ready_file.stat().st_mode & 0o077 == 0, "only the owner may read the ready file, because it has the token"
        assert ottla("fault", "add", "{api: EndTxn, drop_answer: true}", *where) == "2"
        assert ottla("fault", "add", "--file", "-", *where, given="{api: Fetch, delay_ms: 2}") == "3"
        assert [one["id"] for one in json.loads(ottla("fault", "list", "--json", *where))] == [1, 2, 3]
        assert ottla("fault", "add", "{api: EndTxn, fields: {committed: true}, times: null, drop_answer: true}", *where) == "4"
        shown = ottla("fault", "list", *where)
        assert all(field in shown for field in ("api: EndTxn", 'fields: {"committed": true}', "times: null", "drop_answer: true"))
        ottla("fault", "remove", "2", *where)
        assert "unknown fault 2; the ids are 1, 3, 4" in ottla("fault", "remove", "2", *where, code=2)
        ottla("fault", "remove", "--all", *where)
        assert "there are no faults" in ottla("fault", "list", *where)
        assert "did you mean EndTxn" in ottla("fault", "add", "{api: EndTx, drop_answer: true}", *where, code=2)
        assert "month must be in 1..12" in ottla("fault", "add", "{api: 2001-13-45}", *where, code=2)
        assert json.loads(ottla("clock", "advance", "1h", "--json", *where)) == {"now_ms": 1_700_003_600_000, "is_manual": True}
        assert "is not a duration" in ottla("clock", "advance", "soon", *where, code=2)
        assert "manual" in ottla("clock", "show", *where)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    assert "no broker is ready" in ottla("clock", "show", *where, code=2)
    assert "no broker was given" in ottla("clock", "show", code=2)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--clock", "manual"), "needs the control API, which advances the clock"),
        (("--clock", "still", "--control-port", "0"), "is not machine, manual"),
        (("--faults", "nowhere.yaml"), "--faults nowhere.yaml: No such file or directory"),
        (("--control-port", "99999"), "99999"),
    ],
)
def test_invalid_control_flags_of_serve_are_refused(tmp_path: Path, flags: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(tmp_path / "data"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_serve_command_reports_a_control_port_in_use_before_the_broker_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--control-port", str(port), "--console")
        command = [sys.executable, "-m", "ottla", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ottla: cannot open the control port on 127.0.0.1:{port}: "), line


def test_broker_snapshot_inside_the_data_directory_is_refused(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    inside = f"{broker.data_dir.parent}/../{broker.data_dir.parent.name}/data/kept-0"
    link = tmp_path / "link"
    link.symlink_to(broker.data_dir)
    for command in ("snapshot", "restore"):
        for path in (inside, str(link), f"{link}/kept-0", f"{link}/not/there"):
            with pytest.raises(ControlError, match="is in the broker's data directory"):
                broker._control().post(f"/v1/{command}", {"path": path})
    assert broker.records("orders") == []
