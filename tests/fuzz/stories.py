"""Requests in a meaningful order, as real clients send them, with a step sometimes omitted, repeated or corrupted.

A story is a generator that yields requests and receives the response to each, or None if there is no response.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

from tests.fuzz import batches, subscriptions
from tests.fuzz.encoding import Tree, requests
from tests.fuzz.values import Maker
from tests.fuzz.vocabulary import Cast, Member, Producer, Vocabulary

Request = tuple[int, int, Tree]
Story = Generator[Request, Any, None]


class Teller:
    """Creates the requests of stories, which are random sequences of requests that make sense together, such as a transaction."""

    def __init__(self, rng: random.Random, words: Vocabulary, maker: Maker, now_ms: Callable[[], int]) -> None:
        self.rng = rng
        self.words = words
        self._maker = maker
        self._now_ms = now_ms

    def cast(self) -> Cast:
        return self.words.cast(self._now_ms())

    def version(self, key: int, low: int = 0, high: int = 99) -> int:
        section = requests()[key]
        newest = section.high - 1 if section.unstable else section.high
        return self.rng.randint(max(section.low, low), min(newest, high))

    def ask(self, key: int, version: int, cast: Cast, **given: Any) -> Request:
        """Return a request with these field values; all other fields are drawn.

        The encoder omits fields that the version does not have.
        """
        return key, version, self._maker.tree(key, version, cast, 0.01 if self.rng.random() < 0.2 else 0.0, **given)

    def begin(self) -> Story:
        """Return the requests of a randomly chosen story, such as a transaction."""
        return self.rng.choice((transaction, transaction, transaction, idempotent, member, member, topics, reader, offsets))(self)


def _produce(teller: Teller, cast: Cast, producer: Producer, version: int) -> Request:
    raw = batches.sound(teller.rng, cast, cast.topic, cast.partition)
    part = {"index": cast.partition, "records": raw}
    topic = {"name": cast.topic, "topic_id": teller.words.topic_ids.get(cast.topic, bytes(16)), "partition_data": [part]}
    return teller.ask(0, version, cast, transactional_id=producer.transactional_id, acks=-1, topic_data=[topic])


def transaction(teller: Teller) -> Story:
    """Yield a transaction of version 1 or 2, with some of its requests omitted."""
    rng = teller.rng
    cast = teller.cast()
    producer = cast.producer
    if producer.transactional_id is None:
        return
    newer = rng.random() < 0.6
    if producer.producer_id < 0 or rng.random() < 0.15:
        version = teller.version(22)
        known = (producer.producer_id, producer.epoch) if rng.random() < 0.5 else (-1, -1)
        yield teller.ask(22, version, cast, transactional_id=producer.transactional_id, transaction_timeout_ms=60_000,
                         producer_id=known[0], producer_epoch=known[1], enable2_pc=False, keep_prepared_txn=False)  # fmt: skip
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    named = {"transactional_id": producer.transactional_id, **identity}
    for _ in range(rng.choice((1, 1, 2, 3))):
        cast.topic, cast.partition = rng.choice(("t", "u")), rng.choice((0, 1))
        if not newer and rng.random() < 0.9:
            partitions = {"name": cast.topic, "partitions": [cast.partition]}
            yield teller.ask(24, teller.version(24, 0, 3), cast,
                             v3_and_below_transactional_id=producer.transactional_id,
                             v3_and_below_producer_id=producer.producer_id, v3_and_below_producer_epoch=producer.epoch,
                             v3_and_below_topics=[partitions])  # fmt: skip
        if rng.random() < 0.9:
            yield _produce(teller, cast, producer, teller.version(0, 12) if newer else teller.version(0, 3, 11))
    if rng.random() < 0.5:
        if not newer:
            yield teller.ask(25, teller.version(25, 0, 3), cast, group_id=cast.member.group_id, **named)
        offset = {
            "partition_index": 0,
            "committed_offset": rng.randrange(9),
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        topics = [{"name": cast.topic, "topic_id": teller.words.topic_ids.get(cast.topic, bytes(16)), "partitions": [offset]}]
        nobody = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        version = teller.version(28, 5) if newer else teller.version(28, 0, 4)
        yield teller.ask(28, version, cast, topics=topics, group_id=cast.member.group_id, **nobody, **named)
    if rng.random() < 0.85:
        end = teller.ask(
            26, teller.version(26, 5) if newer else teller.version(26, 0, 4), cast, committed=rng.random() < 0.5, **named
        )
        yield end
        if rng.random() < 0.2:
            yield end


def idempotent(teller: Teller) -> Story:
    """Yield a producer without transactions: batches in sequence, repeated batches, and sometimes a sequence gap."""
    rng = teller.rng
    cast = teller.cast()
    producer = cast.producer = next(p for p in teller.words.producers if p.transactional_id is None)
    if producer.producer_id < 0 or rng.random() < 0.1:
        yield teller.ask(22, teller.version(22), cast, transactional_id=None, transaction_timeout_ms=60_000,
                         producer_id=-1, producer_epoch=-1, enable2_pc=False, keep_prepared_txn=False)  # fmt: skip
    for _ in range(rng.randrange(1, 6)):
        cast.topic, cast.partition = rng.choice(("t", "u", "small")), rng.choice((0, 1))
        request = _produce(teller, cast, producer, teller.version(0))
        for _ in range(rng.choice((1, 1, 1, 2))):
            yield request
        if rng.random() < 0.05:
            producer.sequences[cast.topic, cast.partition] = rng.choice((7, 2**31 - 1, 0))


def member(teller: Teller) -> Story:
    """Yield the requests of a member of a classic group: JoinGroup, SyncGroup, Heartbeat, OffsetCommit, LeaveGroup."""
    rng = teller.rng
    cast = teller.cast()
    me: Member = cast.member
    common = {"group_id": me.group_id, "group_instance_id": me.instance_id}
    protocols = [
        {"name": n, "metadata": subscriptions.subscription(rng, ["t"])} for n in rng.choice((["range"], ["range", "sticky"]))
    ]
    for _ in range(2):
        times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": rng.choice((1_000, 60_000))}
        joins = {"member_id": me.member_id, "protocol_type": "consumer", "protocols": protocols}
        answer = yield teller.ask(11, teller.version(11), cast, **joins, **times, **common)
        if answer is None or answer.error_code != 79:
            break
    for _ in range(rng.randrange(1, 5)):
        mine = {"generation_id": me.generation, "member_id": me.member_id, **common}
        plan = [{"member_id": m, "assignment": subscriptions.assignment([("t", [0])])} for m in me.all_members] if me.leads else []
        draw = rng.random()
        if draw < 0.4:
            yield teller.ask(
                14, teller.version(14), cast, assignments=plan, protocol_type="consumer", protocol_name="range", **mine
            )
        elif draw < 0.7:
            yield teller.ask(12, teller.version(12), cast, **mine)
        else:
            yield teller.ask(
                8, teller.version(8), cast, generation_id_or_member_epoch=me.generation, member_id=me.member_id, **common
            )
    if rng.random() < 0.4:
        leaver = {"member_id": me.member_id, "group_instance_id": me.instance_id, "reason": None}
        yield teller.ask(13, teller.version(13), cast, group_id=me.group_id, member_id=me.member_id, members=[leaver])
        me.member_id, me.generation = "", -1


def topics(teller: Teller) -> Story:
    """Yield a topic that is created, used and changed, and sometimes deleted while in use."""
    rng = teller.rng
    cast = teller.cast()
    name = cast.topic = rng.choice(("fresh-1", "fresh-2", "small", "u", "compacted", "stamped"))
    configs = {"compacted": [("cleanup.policy", "compact")], "stamped": [("message.timestamp.type", "LogAppendTime")],
               "small": [("max.message.bytes", "1000")]}.get(name, [])  # fmt: skip
    made = {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": []}
    made["configs"] = [{"name": key, "value": value} for key, value in configs]
    yield teller.ask(19, teller.version(19), cast, topics=[made], validate_only=rng.random() < 0.1)
    yield teller.ask(3, teller.version(3), cast)
    for _ in range(rng.randrange(4)):
        yield _produce(teller, cast, cast.producer, teller.version(0))
    for key in rng.sample((37, 44, 33, 32, 21, 2), 2):
        yield teller.ask(key, teller.version(key), cast)
    if rng.random() < 0.4:
        state = {"name": name, "topic_id": bytes(16)}
        yield teller.ask(20, teller.version(20), cast, topic_names=[name], topics=[state])


def reader(teller: Teller) -> Story:
    """Yield a consumer's Fetch and ListOffsets requests, with and without a fetch session."""
    cast = teller.cast()
    version = teller.version(1)
    for _ in range(teller.rng.randrange(1, 4)):
        yield teller.ask(1, version, cast, max_wait_ms=teller.rng.choice((0, 0, 100)))
        yield teller.ask(2, teller.version(2), cast)


def offsets(teller: Teller) -> Story:
    """Yield offset commits, fetches and deletions of a group without members."""
    rng = teller.rng
    cast = teller.cast()
    cast.member = Member(rng.choice(("simple", "g")))
    for key in rng.choices((8, 8, 9, 47, 42, 15, 16), k=rng.randrange(2, 6)):
        yield teller.ask(key, teller.version(key), cast)
