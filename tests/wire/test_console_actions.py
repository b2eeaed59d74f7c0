"""Actions of the console on ottla and on Apache Kafka, their previews, and the commands that do the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ottla import Cluster
from ottla.cli import main
from ottla.client import KafkaClient
from ottla.client.admin.documented_configs import documented_configs
from ottla.client.admin.topics import ConfigKind
from ottla.console.actions.registry import carried_out
from ottla.control.command import CommandRefused
from tests.support.either_broker import EITHER, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wire

TIMEOUT_S = 60.0


@pytest.fixture(scope="module", params=EITHER)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker: each test runs with ottla and with Apache Kafka."""
    with running(request.param, tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap


class Console:
    """Sends actions as a page does, but without HTTP, and runs the commands that their previews show."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.bootstrap = bootstrap
        self.client = KafkaClient(bootstrap, TIMEOUT_S)
        self._capsys = capsys

    def _sent(self, name: str, parameters: dict[str, Any], *, is_preview: bool) -> dict[str, Any]:
        body = json.dumps(parameters).encode()
        new_client = lambda: KafkaClient(self.bootstrap, TIMEOUT_S)  # noqa: E731
        return carried_out(name, body, new_client, ["--bootstrap", self.bootstrap], is_preview=is_preview)

    def preview(self, action: str, /, **parameters: Any) -> dict[str, Any]:
        return self._sent(action, parameters, is_preview=True)

    def act(self, action: str, /, **parameters: Any) -> str:
        return str(self._sent(action, parameters, is_preview=False)["said"])

    def preview_refusal(self, action: str, /, **parameters: Any) -> str:
        with pytest.raises(CommandRefused) as caught:
            self.preview(action, **parameters)
        return str(caught.value)

    def refusal(self, action: str, /, **parameters: Any) -> str:
        """Return why the preview is refused. The action must be refused as well."""
        with pytest.raises(CommandRefused):
            self.act(action, **parameters)
        return self.preview_refusal(action, **parameters)

    def run_command(self, action: str, /, **parameters: Any) -> None:
        program, *arguments = shlex.split(self.preview(action, **parameters)["command"])
        code = main([*arguments, "--timeout-s", str(TIMEOUT_S)] if "--" not in arguments else arguments)
        assert self._capsys is not None
        assert (program, code) == ("ottla", 0), self._capsys.readouterr()

    def values(self, topic: str, isolation: Any = "committed") -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.client.records(topic, isolation)]

    def has_values(self, topic: str, count: int) -> bool:
        return len(self.values(topic)) == count

    def lacks_topic(self, topic: str) -> bool:
        return topic not in [listing.name for listing in self.client.topics()]

    def lacks_group(self, group: str) -> bool:
        return group not in [listing.group_id for listing in self.client.groups()]

    def committed(self, group: str) -> list[tuple[str, int]]:
        return sorted((one.topic, one.partition) for one in self.client.group(group).positions if one.committed is not None)

    def starts(self, topic: str) -> list[int]:
        return [partition.log_start_offset for partition in self.client.topic(topic).partitions]


@pytest.fixture
def console(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Console]:
    opened = Console(bootstrap, capsys)
    yield opened
    opened.client.close()


def twice(console: Console) -> list[Callable[..., object]]:
    """The two ways to make a change: the console's action, and its equivalent command."""
    return [console.act, console.run_command]


@pytest.mark.smoke
def test_console_creates_and_deletes_topics(console: Console, unique: Callable[[str], str]) -> None:
    for way in twice(console):
        topic = unique("topic")
        way("create-topic", topic=topic, partitions=3, replicas=1, configs={"retention.ms": "60000"})
        described = console.client.topic(topic)
        assert len(described.partitions) == 3
        assert {config.name: config.value for config in described.configs if config.own} == {"retention.ms": "60000"}
        assert "has 3 partitions; give a larger number" in console.preview_refusal("add-partitions", topic=topic, partitions=3)
        way("add-partitions", topic=topic, partitions=4)
        assert len(console.client.topic(topic).partitions) == 4
        console.act("produce", topic=topic, value="v")
        warning = console.preview("delete-topic", topic=topic)["warning"]
        assert "4 partitions with up to 1 record (transaction markers count too) will be deleted" in warning
        way("delete-topic", topic=topic)
        wait_until(partial(console.lacks_topic, topic))
        assert "unknown topic" in console.refusal("delete-topic", topic=topic)
    with pytest.raises(CommandRefused, match="INVALID_TOPIC_EXCEPTION"):
        console.act("create-topic", topic="a/b")


def test_console_produces_records_with_every_option(console: Console, unique: Callable[[str], str]) -> None:
    for way in twice(console):
        topic = unique("records")
        console.client.create_topic(topic, 3)
        way("produce", topic=topic, value="plain", partition=1)
        way(
            "produce",
            topic=topic,
            key="k",
            value="",
            headers=[{"name": "a", "value": "b"}, {"name": "a", "value": ""}],
            partition=1,
        )
        way("produce", topic=topic, key="k", value=None, partition=1)
        way("produce", topic=topic, value="kept", partition=2, transaction={"id": unique("id")})
        way("produce", topic=topic, value="dropped", partition=2, transaction={"id": unique("id"), "is_committed": False})
        wait_until(partial(console.has_values, topic, 4))
        assert console.values(topic) == [(None, b"plain"), (b"k", b""), (b"k", None), (None, b"kept")]
        assert console.values(topic, "aborted") == [(None, b"dropped")]
        assert console.client.records(topic)[1].headers == [("a", b"b"), ("a", b"")]
    with pytest.raises(CommandRefused, match="unknown partition 9"):
        console.act("produce", topic=topic, value="v", partition=9, transaction={"id": unique("id")})
    assert "written to" in console.act("produce", topic=topic, value="v" * 900_000)


def test_console_transaction_fences_the_current_producer(console: Console, unique: Callable[[str], str]) -> None:
    topic, name = unique("fenced"), unique("id")
    console.client.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": console.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"of the first")
    producer.flush(TIMEOUT_S)
    console.act("produce", topic=topic, value="of the console", transaction={"id": name})
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: console.values(topic) == [(None, b"of the console")])


def test_console_deletes_records_before_an_offset(console: Console, unique: Callable[[str], str]) -> None:
    for way in twice(console):
        topic = unique("deleted")
        console.client.create_topic(topic, 2)
        for number in range(6):
            console.act("produce", topic=topic, value=str(number), partition=number % 2)
        before = {"kind": "offset", "number": 2}
        preview = console.preview("delete-records", topic=topic, before=before, partition=0)
        assert (preview["rows"], "up to 2 records" in preview["warning"]) == ([[0, 0, 2, 3]], True)
        way("delete-records", topic=topic, before=before, partition=0)
        assert console.starts(topic) == [2, 0]
        way("delete-records", topic=topic, before={"kind": "end"})
        assert console.starts(topic) == [3, 3]
        assert "there is nothing to delete" in console.refusal("delete-records", topic=topic, before={"kind": "beginning"})


def test_console_resets_and_deletes_a_group(console: Console, unique: Callable[[str], str]) -> None:
    for way in twice(console):
        topic, group = unique("topic"), unique("group")
        console.client.create_topic(topic, 2)
        for number in range(6):
            console.act("produce", topic=topic, value=str(number), partition=number % 2)
        assert "has no committed offsets" in console.refusal("reset-group", group=group, to={"kind": "end"})
        way("reset-group", group=group, to={"kind": "beginning"}, topics=[{"topic": topic}])
        preview = console.preview(
            "reset-group", group=group, to={"kind": "offset", "number": 99}, topics=[{"topic": topic, "partition": 1}]
        )
        assert preview["rows"][0][:4] == [f"{topic}:1", 0, 3, 0]
        assert "outside of the log" in preview["rows"][0][4]
        way("reset-group", group=group, to={"kind": "end"})
        assert [position.lag for position in console.client.group(group).positions] == [0, 0]
        assert "2 committed offsets will be deleted" in console.preview("delete-group", group=group)["warning"]
        way("delete-group", group=group)
        wait_until(partial(console.lacks_group, group))
        assert "unknown group" in console.refusal("delete-group", group=group)


def test_console_deletes_committed_offsets_of_topics_and_partitions(console: Console, unique: Callable[[str], str]) -> None:
    for way in twice(console):
        topic, other, group = unique("topic"), unique("other"), unique("group")
        console.client.create_topic(topic, 3)
        console.client.create_topic(other, 1)
        assert "unknown group" in console.refusal("delete-offsets", group=group, topics=[{"topic": topic}])
        console.act("reset-group", group=group, to={"kind": "end"}, topics=[{"topic": topic}, {"topic": other}])
        one = {"group": group, "topics": [{"topic": topic, "partition": 1}]}
        preview = console.preview("delete-offsets", **one)
        assert (preview["rows"], "1 committed offset will be deleted" in preview["warning"]) == ([[f"{topic}:1", 0, 0]], True)
        way("delete-offsets", **one)
        assert console.committed(group) == [(other, 0), (topic, 0), (topic, 2)]
        assert f"has no committed offset of {topic}:1" in console.refusal("delete-offsets", **one)
        way("delete-offsets", group=group, topics=[{"topic": topic}])
        assert console.committed(group) == [(other, 0)]
    assert "no topic is named" in console.refusal("delete-offsets", group=group, topics=[])


def test_console_deletes_only_the_committed_offsets_of_its_preview(console: Console, unique: Callable[[str], str]) -> None:
    topic, group = unique("topic"), unique("group")
    console.client.create_topic(topic, 2)
    console.act("reset-group", group=group, to={"kind": "end"}, topics=[{"topic": topic, "partition": 0}])
    deletion: dict[str, Any] = {"group": group, "topics": [{"topic": topic}]}
    confirmed = console.preview("delete-offsets", **deletion)["confirmed"]
    console.act("reset-group", group=group, to={"kind": "end"}, topics=[{"topic": topic, "partition": 1}])
    assert "1 committed offset of group" in console.act("delete-offsets", **deletion, **confirmed)
    assert console.committed(group) == [(topic, 1)]


def test_console_action_uses_the_offsets_confirmed_in_its_preview(console: Console, unique: Callable[[str], str]) -> None:
    topic, group = unique("growing"), unique("group")
    console.client.create_topic(topic, 1)
    console.act("produce", topic=topic, value="seen in the preview")
    deletion: dict[str, Any] = {"topic": topic, "before": {"kind": "end"}}
    reset: dict[str, Any] = {"group": group, "to": {"kind": "end"}, "topics": [{"topic": topic}]}
    of_deletion = console.preview("delete-records", **deletion)["confirmed"]
    of_reset = console.preview("reset-group", **reset)["confirmed"]
    console.act("produce", topic=topic, value="written after the preview")
    console.act("delete-records", **deletion, **of_deletion)
    console.act("reset-group", **reset, **of_reset)
    assert console.starts(topic) == [1]
    assert [position.committed for position in console.client.group(group).positions] == [1]
    assert console.values(topic) == [(None, b"written after the preview")]


def test_console_neither_resets_nor_deletes_a_group_with_members(console: Console, unique: Callable[[str], str]) -> None:
    topic, group = unique("topic"), unique("group")
    console.client.create_topic(topic, 1)
    console.act("produce", topic=topic, value="v")
    settings = {"bootstrap.servers": console.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.2) is not None)
        consumer.commit(asynchronous=False)
        assert "stop its members first" in console.refusal(
            "reset-group", group=group, to={"kind": "end"}, topics=[{"topic": topic}]
        )
        assert "stop its members first" in console.preview_refusal("delete-group", group=group)
        assert "a member of the group subscribes to the topic; stop its members first" in console.refusal(
            "delete-offsets", group=group, topics=[{"topic": topic}]
        )
        with pytest.raises(CommandRefused, match="stop its members first"):
            console.act("delete-offsets", group=group, topics=[], partitions=[{"topic": topic, "partition": 0}])
    finally:
        consumer.close()


def test_console_aborts_an_open_transaction(console: Console, unique: Callable[[str], str]) -> None:
    topic = unique("topic")
    console.client.create_topic(topic, 1)
    for way in twice(console):
        name = unique("id")
        producer = Producer({"bootstrap.servers": console.bootstrap, "transactional.id": name, "log_level": 0})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(topic, b"open")
        producer.flush(TIMEOUT_S)
        known = console.client.transaction(name)
        shown = {"id": name, "producer_id": known.producer_id, "producer_epoch": known.epoch}
        assert console.preview("abort-transaction", **shown)["rows"] == [[f"{topic}:0"]]
        other = {**shown, "producer_epoch": known.epoch + 1}
        assert "has begun another transaction meanwhile" in console.refusal("abort-transaction", **other)
        way("abort-transaction", **shown)
        assert "has no open transaction" in console.refusal("abort-transaction", **shown)
        with pytest.raises(KafkaException):
            producer.commit_transaction(TIMEOUT_S)


def test_console_sets_configs_and_shows_their_documentation_and_default(console: Console, unique: Callable[[str], str]) -> None:
    topic = unique("configs")
    console.client.create_topic(topic, 1)

    def shown(kind: ConfigKind, name: str, key: str) -> tuple[Any, ...]:
        (found,) = (one for one in documented_configs(console.client.brokers, kind, name) if one.config.name == key)
        return found.config.value, found.default, found.type, bool(found.documentation)

    for way in twice(console):
        of_topic = {"kind": "topic", "name": topic, "key": "retention.ms"}
        way("set-config", **of_topic, value="5000")
        wait_until(lambda: shown(ConfigKind.TOPIC, topic, "retention.ms") == ("5000", "604800000", "long", True))
        assert console.preview("set-config", **of_topic, value=None)["rows"] == [["retention.ms", "5000", "the default"]]
        way("set-config", **of_topic, value=None)
        wait_until(lambda: shown(ConfigKind.TOPIC, topic, "retention.ms") == ("604800000", "604800000", "long", True))
    assert "unknown config 'no.such'" in console.preview_refusal("set-config", kind="topic", name=topic, key="no.such", value="1")
    with pytest.raises(CommandRefused, match="INVALID_CONFIG"):
        console.act("set-config", kind="topic", name=topic, key="retention.ms", value="long")
    broker = str(console.client.brokers.nodes()[0].node_id)
    assert "cannot be changed while the broker runs" in console.preview_refusal(
        "set-config", kind="broker", name=broker, key="log.dirs", value="/tmp"
    )
    with pytest.raises(CommandRefused, match=r"Invalid max\.connections 0"):
        console.act("set-config", kind="broker", name="", key="max.connections", value="0")
    for name in (broker, ""):
        secret: dict[str, Any] = {"kind": "broker", "name": name, "key": "ssl.keystore.password"}
        effects = console.preview("set-config", **secret, value="of the key store")
        assert ("of the key store" in str(effects), effects["rows"][0][2]) == (False, "(hidden)")
        assert "ssl.keystore.password=(hidden)" in effects["command"]


def test_console_elects_partition_leaders() -> None:
    with Cluster(2) as cluster:
        console = Console(cluster.bootstrap)
        cluster.create_topic("orders", 2, replication_factor=2)
        assert "every partition is led by its preferred replica" in console.refusal("elect-leaders", topic="orders")
        assert "every partition has a leader" in console.refusal("elect-leaders", topic="orders", is_unclean=True)
        assert "unknown partition 7" in console.refusal("elect-leaders", topic="orders", partition=7)
        (first,) = {partition.leader for partition in console.client.topic("orders").partitions if partition.partition == 0}
        cluster.kill(first)
        wait_until(lambda: console.client.topic("orders").partitions[0].leader not in (first, -1))
        cluster.restart(first)
        wait_until(lambda: len(console.client.topic("orders").partitions[0].in_sync) == 2)
        assert console.preview("elect-leaders", topic="orders", partition=0)["rows"][0][0] == 0
        console.act("elect-leaders", topic="orders", partition=0)
        wait_until(lambda: console.client.topic("orders").partitions[0].leader == first)
        console.client.close()
