"""Commands of daily work, on ottla and Apache Kafka: alter and delete, filters, formats, the newest records, ``ottla top``."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from ottla import Broker
from ottla.cli import main
from ottla.client import KafkaClient, NewRecord
from ottla.client.cluster import GROUP
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support import oracle
from tests.support.either_broker import EITHER, running
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.wire.test_prompt import MEMBER, Prompt, transactional

pytestmark = pytest.mark.wire

TIMEOUT_S = 60
EIGHTY = 80


@pytest.fixture(scope="module", params=EITHER)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker: each test runs with ottla and with Apache Kafka."""
    with running(request.param, tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap


@pytest.fixture
def prompt(kafka: str, capsys: pytest.CaptureFixture[str]) -> Prompt:
    return Prompt(kafka, capsys)


def write(bootstrap: str, topic: str, records: list[NewRecord]) -> None:
    with KafkaClient(bootstrap, TIMEOUT_S) as client:
        client.produce(topic, records)


@pytest.mark.smoke
def test_topic_alter_command_adds_partitions_and_changes_configs(prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic = unique("altered")
    prompt("topic", "create", topic, "--partitions", "1")
    said = prompt(
        "topic", "alter", topic, "--partitions", "4", "--config", "retention.ms=1000", "--config", "segment.bytes=1048576"
    )
    assert f"topic {topic} has 4 partitions, before 1" in said
    described = prompt.json("topic", "describe", topic)
    assert len(described["partitions"]) == 4
    assert described["configs"] == {"retention.ms": "1000", "segment.bytes": "1048576"}
    assert prompt.json("topic", "alter", topic, "--unset", "retention.ms")["configs"] == {"retention.ms": None}
    assert prompt("topic", "alter", topic, "--partitions", "4") == f"topic {topic} has 4 partitions already\n"
    assert "Kafka cannot remove any; give 4 or more" in prompt("topic", "alter", topic, "--partitions", "3", code=2)
    assert "INVALID_CONFIG" in prompt("topic", "alter", topic, "--config", "no.such=1", code=2)
    assert "unknown topic 'nope'" in prompt("topic", "alter", "nope", "--partitions", "3", code=2)


def test_group_delete_command_deletes_groups_without_members(kafka: str, prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, groups = unique("read"), [unique("group"), unique("group")]
    prompt("topic", "create", topic, "--partitions", "1")
    for group in groups:
        prompt("group", "reset", group, "--to", "beginning", "--topic", topic)
    assert "unknown group 'nope'" in prompt("group", "delete", groups[0], "nope", code=2)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": groups[0]})
    consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)
    assert "NON_EMPTY_GROUP (the group is Stable; stop its members first)" in prompt("group", "delete", groups[0], code=2)
    consumer.close()
    assert prompt.json("group", "delete", *groups) == {"deleted": groups}
    assert not {listed["group"] for listed in prompt.json("group", "list")} & set(groups)


def test_group_delete_offsets_command_deletes_committed_offsets(kafka: str, prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, other, group = unique("read"), unique("other"), unique("group")
    prompt("topic", "create", topic, "--partitions", "2")
    prompt("topic", "create", other, "--partitions", "1")
    prompt("group", "reset", group, "--to", "beginning", "--topic", topic)
    row = {"topic": topic, "partition": 1, "committed": 0}
    dry = prompt.json("group", "delete-offsets", group, "--topic", f"{topic}:1", "--dry-run")
    assert dry == {"group": group, "dry_run": True, "offsets": [row]}
    # The consumer reads only ``other``, so the group's offsets of ``topic`` can be deleted although the group has a member.
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    consumer.subscribe([other])
    deadline = time.monotonic() + TIMEOUT_S
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)
    assert prompt.json("group", "delete-offsets", group, "--topic", f"{topic}:1")["offsets"] == [row]
    said = prompt("group", "delete-offsets", group, "--topic", other, code=2)
    assert "a member of the group subscribes to the topic; stop its members first" in said
    consumer.close()
    misspelled = prompt("group", "delete-offsets", group, "--topic", topic, "--topic", f"{topic}:1", code=2)
    assert f"has no committed offset of {topic}:1" in misspelled
    assert prompt("group", "delete-offsets", group, "--topic", topic).splitlines()[1].split() == [topic, "0", "0"]
    assert "unknown group 'nope'" in prompt("group", "delete-offsets", "nope", "--topic", topic, code=2)


def test_group_delete_offsets_command_deletes_offsets_of_share_groups(prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, group = unique("shared"), unique("sharers")
    prompt("topic", "create", topic, "--partitions", "2")
    with KafkaClient(prompt.bootstrap, timeout_s=TIMEOUT_S) as cluster:
        cluster.brokers.until_final("", lambda: cluster.brokers.coordinator(GROUP, group))
    with RawClient(prompt.bootstrap) as client:
        joining = ShareGroupHeartbeatRequest(group_id=group, member_id=MEMBER, subscribed_topic_names=[topic])
        assert oracle.ready(client, joining, None, lambda answer: [answer.error_code]).error_code == 0
        wait_until(lambda: len(prompt.json("group", "describe", group)["offsets"]) == 2)
        delete = ("group", "delete-offsets", group, "--topic")
        assert "a member of the group subscribes to the topic" in prompt(*delete, topic, code=2)
        assert client.call(ShareGroupHeartbeatRequest(group_id=group, member_id=MEMBER, member_epoch=-1)).error_code == 0
    prompt("group", "reset", group, "--to", "end", "--topic", topic)
    assert f"the offsets of a share group are deleted by topic; give {topic} instead" in prompt(*delete, f"{topic}:1", code=2)
    assert len(prompt.json(*delete, topic)["offsets"]) == 2
    assert f"has no committed offset of {topic}" in prompt(*delete, topic, code=2)


def test_record_delete_command_deletes_records_before_an_offset_or_date(
    kafka: str, prompt: Prompt, unique: Callable[[str], str]
) -> None:
    topic = unique("trimmed")
    prompt("topic", "create", topic, "--partitions", "2")
    old_ms, new_ms = 1_600_000_000_000, 1_700_000_000_000
    write(kafka, topic, [NewRecord(value=b"old", partition=at % 2, timestamp_ms=old_ms) for at in range(6)])
    write(kafka, topic, [NewRecord(value=b"new", partition=0, timestamp_ms=new_ms)])
    assert prompt.json("record", "delete", topic, "--before", "2", "--dry-run")["dry_run"]
    assert len(prompt("consume", topic).splitlines()) == 7
    changed = prompt.json("record", "delete", f"{topic}:1", "--before", "2")["partitions"]
    assert changed == [{"topic": topic, "partition": 1, "start_before": 0, "start_after": 2, "offsets": 2}]
    prompt("record", "delete", topic, "--before", "2023-01-01")
    assert prompt("consume", topic, "--values") == "new\n"
    assert prompt.json("record", "delete", topic, "--before", "0")["partitions"][0]["offsets"] == 0
    said = prompt("record", "delete", topic, "--before", "1000000", code=2)
    assert f"offset 1000000 is beyond the end of {topic}-0, which has offsets " in said and "nothing was deleted" in said
    prompt("record", "delete", topic, "--before", "1000000", "--dry-run", code=2)
    prompt("record", "delete", topic, "--before", "end")
    assert prompt("consume", topic) == ""
    assert "unknown partition 7" in prompt("record", "delete", f"{topic}:7", "--before", "end", code=2)


def test_consume_command_filters_limits_and_formats_records(kafka: str, prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic = unique("filtered")
    prompt("topic", "create", topic, "--partitions", "3")
    base_ms = 1_700_000_000_000
    records = [
        NewRecord(
            value=None if at == 7 else json.dumps({"n": at, "even": at % 2 == 0}).encode(),
            key=b"k%d" % at,
            headers=[("odd", b"yes")] if at % 2 else [],
            partition=at % 3,
            timestamp_ms=base_ms + 1_000 * at,
        )
        for at in range(12)
    ]
    write(kafka, topic, records)

    def keys(*arguments: str) -> list[str]:
        return sorted(prompt("consume", topic, "--format", r"%k\n", *arguments).split(), key=lambda key: int(key[1:]))

    assert keys("--last", "3") == ["k9", "k10", "k11"]
    assert prompt("consume", topic, "--last", "4", "--format", "%k ") == "k8 k9 k10 k11 "
    assert keys("--last", "2", "--filter", "value.even=true") == ["k8", "k10"]
    assert keys("--filter", "value.n>=10") == ["k10", "k11"]
    assert keys("--filter", "!value") == ["k7"]
    assert keys("--filter", "header.odd", "--filter", "key~k1") == ["k1", "k11"]
    assert keys("--from", "2023-11-14T22:13:25Z", "--to", "2023-11-14T22:13:28Z") == ["k5", "k6", "k7"]
    assert keys("--to", "1") == ["k0", "k1", "k2"]
    assert keys("--last", "2", "--to", "2023-11-14T22:13:25Z", "--partition", "0") == ["k0", "k3"]
    line = prompt("consume", topic, "--filter", "key=k1", "--format", r"%t|%p|%o|%K|%S|%T|%h|%%\x41\n")
    assert line == f"{topic}|1|0|2|{len(records[1].value or b'')}|{base_ms + 1_000}|odd=yes|%A\n"
    assert "--follow and --to exclude each other" in prompt("consume", topic, "--follow", "--to", "1", code=2)


def test_produce_command_takes_keys_from_a_field_of_json_lines(
    kafka: str, prompt: Prompt, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, lines = unique("lines"), tmp_path / "data.jsonl"
    prompt("topic", "create", topic, "--partitions", "1")
    lines.write_bytes(b'{"id": "a", "of": {"n": 1}}\r\n\n{"id": 7, "of": {"n": [1, 2]}}\n')
    assert prompt.json("produce", topic, "--file", str(lines), "--key-field", "id")["records"] == 2
    assert prompt.json("produce", topic, str(lines), "--key-field", "of.n")["records"] == 2
    assert prompt("consume", topic, "--format", "%k ") == "a 7 1 [1,2] "
    assert prompt("consume", topic, "--format", r"%s\n", "--max", "1") == '{"id": "a", "of": {"n": 1}}\n'
    lines.write_text('{"id": "b"}\n{"id": null}\n')
    said = prompt("produce", topic, "--file", str(lines), "--key-field", "id", code=2)
    assert "line 2 has no 'id' for the key" in said and "the lines before it were written" in said
    assert prompt("consume", topic, "--last", "1", "--format", "%k") == "b"
    lines.write_text("[1]\n")
    assert "line 1 is not a JSON object" in prompt("produce", topic, "--file", str(lines), "--key-field", "id", code=2)


def test_top_command_shows_rates_lag_and_transactions(kafka: str, prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, group, name = unique("busy"), unique("slow"), unique("open")
    prompt("topic", "create", topic, "--partitions", "2")
    write(kafka, topic, [NewRecord(value=b"v", partition=0) for _ in range(50)])
    prompt("group", "reset", group, "--to", "beginning", "--topic", topic)
    producer = transactional(kafka, name)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(TIMEOUT_S)
    seen = prompt.json("top", "--interval-s", "0.2")
    assert next(t for t in seen["topics"] if t["topic"] == topic) | {"written_per_s": 0} == {
        "topic": topic,
        "partitions": 2,
        "end": 51,
        "written_per_s": 0,
    }
    assert next(g for g in seen["groups"] if g["group"] == group)["lag"] == 51
    assert name in [t["transactional_id"] for t in seen["transactions"]]
    text = prompt("top", "--interval-s", "0.2")
    assert topic in text and group in text and name in text
    producer.abort_transaction(TIMEOUT_S)


def test_top_command_refreshes_its_table_on_a_terminal_of_80_columns(
    kafka: str, prompt: Prompt, unique: Callable[[str], str]
) -> None:
    topic = unique("x" * 100)
    prompt("topic", "create", topic, "--partitions", "1")
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(EIGHTY), "LINES": "24", "TERM": "xterm"}
    command = [sys.executable, "-m", "ottla", "top", "--bootstrap", kafka, "--interval-s", "0.3"]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.PIPE, env=environment)
    os.close(slave)
    try:
        shown = _until(master, b"WRITTEN/S")
        write(kafka, topic, [NewRecord(value=b"v") for _ in range(100)])
        shown += _until(master, b"\xe2\x80\xa6")
        os.write(master, b"q")
        _drain(master)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.communicate()
        os.close(master)


def _until(master: int, wanted: bytes) -> bytes:
    shown, deadline = b"", time.monotonic() + TIMEOUT_S
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([master], [], [], 1)[0]:
            shown += os.read(master, 65_536)
    return shown


def _drain(master: int) -> None:
    """Read what the process still writes, so that it does not wait for the terminal."""
    try:
        while select.select([master], [], [], TIMEOUT_S)[0] and os.read(master, 65_536):
            pass
    except OSError:
        # The process has closed the terminal.
        return


def test_topic_delete_command_deletes_internal_topics_only_after_confirmation(tmp_path: Path) -> None:
    with Broker() as broker:
        with KafkaClient(broker.bootstrap, TIMEOUT_S) as client:
            client.create_topic("t", 1)
        command = [sys.executable, "-m", "ottla"]
        run: Any = lambda *arguments, **options: subprocess.run(  # noqa: E731
            [*command, *arguments, "--bootstrap", broker.bootstrap],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            **options,
        )
        assert run("group", "reset", "g", "--to", "beginning", "--topic", "t").returncode == 0
        done = run("topic", "delete", "t", "__consumer_offsets", stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout) == (2, "")
        assert "deleting loses the committed offsets of all groups; give --yes" in done.stderr
        master, slave = pty.openpty()
        for answer, code in (("n", 1), ("y", 0)):
            os.write(master, f"{answer}\n".encode())
            done = run("topic", "delete", "__consumer_offsets", stdin=slave)
            assert done.returncode == code, done.stderr
            assert "Delete? [y/N]" in done.stderr
        os.close(master)
        os.close(slave)


def test_misspelled_topic_prevents_all_deletions_of_a_command_but_not_leader_elections(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        to_broker = ["--bootstrap", broker.bootstrap]
        assert main(["topic", "delete", "orders", "ordres", *to_broker]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and "unknown topic 'ordres'" in captured.err
        assert main(["topic", "elect", "ordres:0", "orders:0", *to_broker]) == 2
        captured = capsys.readouterr()
        assert captured.out == "broker 1 leads orders:0\n"
        assert "ordres" in captured.err


def test_topic_or_group_that_is_named_twice_is_deleted_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        broker.commit_offsets("billing", {("orders", 0): 0})
        for kind, name in (("group", "billing"), ("topic", "orders")):
            assert main([kind, "delete", name, name, "--bootstrap", broker.bootstrap]) == 0
            assert capsys.readouterr().out == f"{kind} {name} was deleted\n"
