"""Kafka's own share consumers (KIP-932): groups with killed members, and aborted transactions."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tools import java_programs, kafka

pytestmark = [pytest.mark.wire, pytest.mark.java]

PROGRAM = Path(__file__).parent / "share" / "Sharer.java"
GROUP_RESOURCE = 32
PARTITIONS = 3
RECORDS, MEMBERS, KILLS = 100_000, 3, 6
TIMEOUT_S = 240
SETTINGS = {
    "group.share.session.timeout.ms": "3000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.record.lock.duration.ms": "15000",
}

Unique = Callable[[str], str]
Closing = Callable[[Any], Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker
        assert not [line for line in broker.logs if '"level": "error"' in line]


def program() -> list[str]:
    """Return the command that starts a member. Raises `tools.kafka.Unavailable`."""
    return java_programs.command(PROGRAM, kafka.jars("clients"), "-Xmx256m", "-XX:TieredStopAtLevel=1")


class Member:
    """A share group member: one process and its output."""

    def __init__(self, bootstrap: str, group: str, topic: str, output: Path) -> None:
        self.output = output
        with output.open("w") as out:
            self.process = subprocess.Popen(
                [*program(), bootstrap, group, topic], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT
            )

    def lines(self, word: str) -> list[list[str]]:
        """Return the words of output lines that begin with `word`, without an incomplete final line, which a kill has truncated."""
        said = self.output.read_text().rpartition("\n")[0].splitlines()
        return [line.split() for line in said if line.startswith(f"{word} ")]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        """Close the standard input, so that the member leaves its group and exits."""
        if self.process.poll() is not None:
            return
        try:
            self.process.communicate(b"end\n", timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()


def set_group(bootstrap: str, group: str, **configs: str) -> None:
    listed = [AlterableConfig(name=f"share.{name.replace('_', '.')}", config_operation=0, value=v) for name, v in configs.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=listed)
    with RawClient(bootstrap) as client:
        assert client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code == 0


def lags(bootstrap: str, group: str) -> list[int]:
    with RawClient(bootstrap) as client:
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        (answer,) = client.call(DescribeShareGroupOffsetsRequest(groups=[asked])).groups
    return [partition.lag for topic in answer.topics for partition in topic.partitions]


def made(bootstrap: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    return topic


def check(members: list[Member], *, count: int) -> None:
    """Check that no record is accepted twice, and that deliveries of the same record have different delivery counts."""
    done: Counter[tuple[str, str]] = Counter()
    counts: dict[tuple[str, str], list[int]] = {}
    for member in members:
        done.update((partition, offset) for _, partition, offset in member.lines("done"))
        for _, partition, offset, delivery, _ in member.lines("got"):
            counts.setdefault((partition, offset), []).append(int(delivery))
    assert not {record: times for record, times in done.items() if times > 1}, "a record was accepted twice"
    assert len(counts) == count, "a record was not delivered"
    for record, deliveries in counts.items():
        # The order of deliveries across members is unknown, because each member writes its own file. Delivery counts must differ.
        assert len(set(deliveries)) == len(deliveries), (record, deliveries)
        assert max(deliveries) <= 5
    released = [record for record, deliveries in counts.items() if int(record[1]) % 50 == 0 and record in done]
    assert all(max(counts[record]) >= 2 for record in released), "a released record was not delivered again"


def java_or_skip() -> None:
    try:
        program()
    except kafka.Unavailable as missing:
        pytest.skip(f"Java clients: {missing}")


def test_share_consumers_do_not_get_aborted_records(broker: Broker, unique: Unique, closing: Closing, tmp_path: Path) -> None:
    java_or_skip()
    topic, group, bootstrap = made(broker.bootstrap, unique("shared")), unique("sharers"), broker.bootstrap
    set_group(bootstrap, group, auto_offset_reset="earliest", isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions()
    kept: set[str] = set()
    for transaction in range(12):
        producer.begin_transaction()
        values = [f"{transaction}-{number}" for number in range(50)]
        for number, value in enumerate(values):
            producer.produce(topic, value.encode(), partition=number % PARTITIONS)
        producer.flush()
        if transaction % 3 == 1:
            producer.abort_transaction()
        else:
            kept.update(values)
            producer.commit_transaction()
    members: list[Member] = [closing(Member(bootstrap, group, topic, tmp_path / f"{name}.txt")) for name in "ab"]
    wait_until(lambda: sum(len(member.lines("done")) for member in members) >= len(kept), TIMEOUT_S)
    for member in members:
        member.close()
    got = [line[4] for member in members for line in member.lines("got")]
    assert set(got) == kept
    check(members, count=len(kept))
    assert not [line for member in members for line in member.lines("refused")]
    with RawClient(bootstrap) as client:
        types = {listed.group_id: (listed.group_type, listed.group_state) for listed in client.call(ListGroupsRequest()).groups}
    assert types[group] == ("share", "Empty")


@pytest.mark.full
def test_killed_share_group_members_lose_no_records(broker: Broker, unique: Unique, closing: Closing, tmp_path: Path) -> None:
    java_or_skip()
    topic, group, bootstrap = made(broker.bootstrap, unique("many")), unique("sharers"), broker.bootstrap
    set_group(bootstrap, group, auto_offset_reset="earliest")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2 * RECORDS})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    members: list[Member] = []

    def started() -> Member:
        member: Member = closing(Member(bootstrap, group, topic, tmp_path / f"{len(members)}.txt"))
        members.append(member)
        return member

    rng, living = random.Random(1), [started() for _ in range(MEMBERS)]
    for kill in range(KILLS):
        share = RECORDS * (kill + 1) // (KILLS + 2)
        wait_until(lambda: sum(len(m.lines("done")) for m in members) >= share, TIMEOUT_S)  # noqa: B023
        victim = rng.choice(living)
        victim.kill()
        living[living.index(victim)] = started()
    wait_until(lambda: lags(bootstrap, group) == [0] * PARTITIONS, TIMEOUT_S)
    for member in living:
        member.close()
    check(members, count=RECORDS)
    # A killed member may have accepted records without printing them. At most group.share.partition.max.record.locks records of
    # each partition were locked for it.
    unsaid = RECORDS - sum(len(member.lines("done")) for member in members)
    assert 0 <= unsaid <= KILLS * PARTITIONS * 2_000
