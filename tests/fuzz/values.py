"""Values for the fields of requests: plausible values by the name of the field, and invalid values by its type."""

from __future__ import annotations

import random
from typing import Any

from ottla.protocol.codegen.schema import Field, Section
from ottla.protocol.primitives import NO_UUID
from tests.fuzz import batches, subscriptions
from tests.fuzz.encoding import Tree, children, requests
from tests.fuzz.vocabulary import BAD_NAMES, GROUPS, INTERNAL, TOPICS, TRANSACTIONAL_IDS, Cast, Vocabulary

BITS = {"int8": 8, "int16": 16, "uint16": 17, "int32": 32, "uint32": 33, "int64": 64}
BOUNDS = {kind: (0 if kind.startswith("u") else -(1 << (bits - 1)), (1 << (bits - 1)) - 1) for kind, bits in BITS.items()}
"""Smallest and largest number of each type."""
EDGES = {
    kind: (-1, -2, 0, 1, 2, 100, limit - 1, limit - 2, -limit, -limit + 1, 255, 256, 65_536, 10_001, None)
    for kind, limit in ((kind, 1 << (bits - 1)) for kind, bits in BITS.items())
}
"""Edge cases of each numeric type. None means any number."""
ANY_TEXT = (*BAD_NAMES, *TOPICS, *INTERNAL, *GROUPS, *TRANSACTIONAL_IDS, "x" * 32_767, "%s%n", "(a+)+$", "[")
MANY = (50, 200, 2_000, 20_000)
"""Numbers of elements for an array that should be large."""
MAX_ELEMENTS = (100,) * 40 + (4_000, 40_000)
"""Maximum number of elements in all arrays of one request together, not counting the first element of each array.

Mostly small, so that many requests fit into a run.
"""
CONFIGS = {
    "cleanup.policy": ("delete", "compact", "compact,delete", "", "none", "delete,delete"),
    "retention.ms": ("-1", "0", "1", "1000", "-2", "x", "9223372036854775807", "9223372036854775808"),
    "retention.bytes": ("-1", "0", "100", "-5"),
    "segment.bytes": ("1048576", "2000000", "14", "0", "-1", "2147483648"),
    "max.message.bytes": ("1000", "0", "1", "-1", "1048588", "100"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime", ""),
    "message.timestamp.before.max.ms": ("0", "1000", "-1"),
    "message.timestamp.after.max.ms": ("0", "3600000", "-1"),
    "min.cleanable.dirty.ratio": ("0", "0.5", "1", "1.1", "-0.1", "nan", "inf"),
    "compression.type": ("producer", "zstd", "uncompressed", "lzma"),
    "segment.ms": ("1", "1000", "0", "-1"),
    "delete.retention.ms": ("0", "1000"),
    "min.compaction.lag.ms": ("0", "1000"),
    "index.interval.bytes": ("0", "1", "4096"),
    "min.insync.replicas": ("1", "2", "0"),
    "no.such.config": ("1",),
    "": ("",),
    "log.retention.ms": ("1000", "-1"),
    "message.max.bytes": ("1000000", "1000"),
    "max.connections": ("100",),
    "log.cleaner.threads": ("1", "2"),
    "log.segment.bytes": ("1048576",),
    "advertised.listeners": ("PLAINTEXT://x:1", "nonsense"),
    "node.id": ("2",),
}
NAMES = ("consumer", "range", "roundrobin", "sticky", "", "\u00e9", "connect")
FEATURES = ("transaction.version", "group.version", "metadata.version", "share.version", "no.such", "", "kraft.version")
SMALL = (0, 0, 0, 1, 1, 2, 3)


class Maker:
    """Draws the fields of requests. ``hostility`` is the probability of an invalid value."""

    def __init__(self, rng: random.Random, words: Vocabulary) -> None:
        self._rng = rng
        self._words = words

    def tree(self, key: int, version: int, cast: Cast, hostility: float = 0.0, **given: Any) -> Tree:
        """Return the fields of a request. ``given`` are values of top-level fields."""
        section = requests()[key]
        self._hostility, self._cast, self._section, self._version = hostility, cast, section, version
        self._key = key
        self._topic, self._kind, self._left = cast.topic, 2, self._rng.choice(MAX_ELEMENTS)
        return self._struct(section, section.fields, section.name) | given

    def _struct(self, section: Section, fields: list[Field], owner: str) -> Tree:
        out: Tree = {}
        for field in fields:
            if not field.low <= self._version <= field.high:
                continue
            if field.tag is not None and self._rng.random() < 0.8:
                continue
            out[field.name] = self._value(field, owner, out)
        return out

    def _value(self, field: Field, owner: str, beside: Tree) -> Any:
        rng = self._rng
        hostile = rng.random() < self._hostility
        if field.nullable and rng.random() < (0.5 if hostile else 0.1):
            return None
        if field.array:
            count = rng.choice((0, 2, 5, rng.choice(MANY))) if hostile else rng.choice((1, 1, 1, 1, 2, 2, 3, 0))
            items = []
            while len(items) < count and (self._left > 0 or not items):
                self._left -= 1
                items.append(self._single(field, owner, beside, hostile and rng.random() < 0.3))
            if hostile and items and rng.random() < 0.3:
                items += [items[0]] * rng.choice((1, 1, 3))
            return items
        return self._single(field, owner, beside, hostile)

    def _single(self, field: Field, owner: str, beside: Tree, hostile: bool) -> Any:
        rng = self._rng
        kind = field.type
        if field.is_struct:
            return self._struct(self._section, children(self._section, field), kind)
        if kind == "records":
            partition = beside.get("index", self._cast.partition)
            return batches.records(rng, self._cast, self._topic, partition, max(self._hostility, 0.3 if hostile else 0.0))
        if kind in BOUNDS:
            return self._clamped(kind, self._any_number(kind) if hostile else self._number(field, owner))
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "uuid":
            return rng.choice((NO_UUID, rng.randbytes(16))) if hostile else self._words.topic_id(self._topic)
        if kind == "bytes":
            return rng.randbytes(rng.choice((0, 1, 10, 300))) if hostile else self._bytes(field)
        if kind == "string":
            return self._any_text() if hostile else self._text(field, owner, beside)
        return rng.random() * 10

    def _any_number(self, kind: str) -> int:
        edge: int | None = self._rng.choice(EDGES[kind])
        if edge is None:
            limit = 1 << (BITS[kind] - 1)
            return self._rng.randrange(-limit, limit)
        return edge

    @staticmethod
    def _clamped(kind: str, value: int) -> int:
        least, largest = BOUNDS[kind]
        return least if value < least else largest if value > largest else value

    def _any_text(self) -> str:
        text: str = self._rng.choice(ANY_TEXT)
        return text

    def _number(self, field: Field, owner: str) -> int:
        rng, name, cast = self._rng, field.name, self._cast
        if name in ("producer_id", "v3_and_below_producer_id"):
            return cast.producer.producer_id
        if name in ("producer_epoch", "v3_and_below_producer_epoch"):
            return cast.producer.epoch + rng.choice((0,) * 12 + (-1, 1))
        if name in ("partition_index", "partition_indexes", "index", "partition", "partitions"):
            return cast.partition if rng.random() < 0.6 else rng.choice((0, 1, 2, 3, -1))
        if name in ("generation_id", "generation_id_or_member_epoch", "member_epoch"):
            return cast.member.generation + rng.choice((0,) * 12 + (-1, 1))
        if name in ("session_id", "session_epoch"):
            return self._session(name)
        known = _NUMBERS.get(name)
        if known is not None:
            return rng.choice(known)
        if name == "resource_type":
            self._kind = rng.choice((2, 2, 2, 4, 4, 8, 16, 32, 1, 0))
            return self._kind
        if name == "offset" or name.endswith("_offset"):
            return rng.choice((0, 0, 1, 2, 3, 5, 10, -1))
        if name == "timestamp":
            return rng.choice((-1, -1, -2, -3, -4, -5, -6, 0, cast.now_ms, cast.now_ms - 1000))
        return rng.choice(SMALL)

    def _session(self, name: str) -> int:
        session, epoch = self._words.sessions[-1] if self._rng.random() < 0.7 else self._rng.choice(self._words.sessions)
        if name == "session_id":
            return session
        self._words.sessions[-1] = (self._words.sessions[-1][0], epoch + 1 if session else epoch)
        return epoch + self._rng.choice((0, 0, 0, 0, 1, -1))

    def _bytes(self, field: Field) -> bytes:
        rng = self._rng
        if field.name == "assignment":
            return subscriptions.assignment([(rng.choice(TOPICS), [0, 1])])
        return subscriptions.subscription(rng, rng.sample(TOPICS[:5], rng.choice((0, 1, 2))))

    def _text(self, field: Field, owner: str, beside: Tree) -> str | None:
        rng, name, cast = self._rng, field.name, self._cast
        if name in ("topic", "topic_name", "topic_names", "topics") or (name == "name" and _names_topic(owner)):
            self._topic = cast.topic if rng.random() < 0.8 else self._words.topic()
            return self._topic
        if name in ("group_id", "groups", "groups_names"):
            return cast.member.group_id if rng.random() < 0.8 else self._words.group()
        if name in ("transactional_id", "transactional_ids", "v3_and_below_transactional_id"):
            fallback = None if field.nullable else rng.choice(TRANSACTIONAL_IDS)
            return cast.producer.transactional_id or fallback
        if name == "member_id":
            return cast.member.member_id if field.low == 0 or rng.random() < 0.9 else None if field.nullable else ""
        if name == "group_instance_id":
            return cast.member.instance_id
        if name in ("key", "coordinator_keys"):
            return rng.choice((*GROUPS, *TRANSACTIONAL_IDS))
        if name in ("name", "configuration_keys") and self._key in (19, 32, 33, 44):
            return rng.choice(tuple(CONFIGS))
        if name == "value":
            return rng.choice(CONFIGS.get(beside.get("name", ""), ("",)))
        if name == "resource_name":
            return {2: cast.topic, 4: rng.choice(("", "1")), 8: "1"}.get(self._kind, cast.member.group_id)
        if name == "feature":
            return rng.choice(FEATURES)
        words = _WORDS.get(name)
        if words is not None:
            return rng.choice(words)
        return rng.choice(NAMES)


def _names_topic(owner: str) -> bool:
    return owner not in ("JoinGroupRequestProtocol", "AlterableConfig", "CreatableTopicConfig")


_NUMBERS: dict[str, tuple[int, ...]] = {
    "acks": (-1, -1, -1, 1, 1, 0, 2),
    "timeout_ms": (1_000, 30_000, 0, -1),
    "transaction_timeout_ms": (60_000, 60_000, 1_000, 1, 0, -1, 900_000, 900_001),
    "session_timeout_ms": (6_000, 10_000, 10_000, 100, 0, -1, 1_800_001),
    "rebalance_timeout_ms": (6_000, 10_000, 100, 0, -1),
    "max_wait_ms": (0, 0, 0, 100, 500, 5_000),
    "min_bytes": (0, 1, 1, 1, 100, 1 << 30),
    "max_bytes": (1 << 20, 1 << 20, 1, 0, 2**31 - 1),
    "partition_max_bytes": (1 << 20, 1 << 20, 1, 0, 2**31 - 1),
    "isolation_level": (0, 1, 1, 2),
    "num_partitions": (1, 2, 3, -1, 0),
    "count": (1, 2, 3, 4, 0, 20),
    "replication_factor": (1, 1, -1, 3, 0),
    "broker_ids": (1, 1, 0, 2),
    "coordinator_epoch": (0, 0, 1, 2, -1),
    "transaction_version": (0, 1, 2, 2, 3),
    "replica_id": (-1, -1, -1, -2, 1, 2),
    "key_type": (0, 1, 0, 1, 2, 3),
    "leader_epoch": (0, 0, -1, 1),
    "current_leader_epoch": (-1, -1, 0, 1),
    "last_fetched_epoch": (-1, -1, 0, 1),
    "committed_leader_epoch": (-1, 0),
    "config_operation": (0, 0, 1, 2, 3, 4, -1),
    "upgrade_type": (1, 2, 3, 0, 4),
    "max_version_level": (0, 1, 2, 3, 30, -1),
    "response_partition_limit": (1, 2, 2_000, 0, -1),
    "resource_types": (2, 4, 8, 16, 32, 0, 3),
    "retention_time_ms": (-1, -1, 0, 1_000),
    "duration_filter": (-1, 0, 1_000),
    "producer_id_filters": (0, 1, 1_000, -1),
}
_WORDS: dict[str, tuple[str, ...]] = {
    "protocol_type": ("consumer", "consumer", "consumer", "connect", ""),
    "protocol_name": ("range", "range", "roundrobin", ""),
    "name": ("range", "range", "roundrobin", ""),
    "states_filter": ("Stable", "Empty", "stable", "", "Nonsense"),
    "types_filter": ("classic", "consumer", "share", "Nonsense"),
    "state_filters": ("Ongoing", "Empty", "CompleteCommit", "Nonsense"),
    "transactional_id_pattern": ("x", ".*", "", "[", "(a+)+$b", "\\1", "(?=x)"),
    "client_software_name": ("fuzz", "bad name!", ""),
    "client_software_version": ("1", "", "-"),
    "committed_metadata": ("", "m", "x" * 5_000),
}
