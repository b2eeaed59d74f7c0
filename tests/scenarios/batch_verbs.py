"""Scenario commands for batches that no client builds, and for the special timestamps of ListOffsets."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import CONTROL_BIT, TRANSACTIONAL_BIT, compress
from tests.scenarios.verbs import CODECS, verb
from tests.scenarios.world import TIMEOUT_MS, Words, World, name_of
from tests.support import oracle
from tests.support.batches import batch, record
from tests.support.framings import framed

BATCHES = Path(__file__).with_name("batches.json")
"""File with single batches in hexadecimal, by name."""
EPOCHS = SEQUENCES = (-1, -2, 0, 5)
BITS = {"none": 0, "transactional": TRANSACTIONAL_BIT, "control": CONTROL_BIT, "both": TRANSACTIONAL_BIT | CONTROL_BIT}
SPECIAL = {"latest": -1, "earliest": -2, "max": -3, "local": -4, "tiered": -5, "pending": -6}
"""Special timestamps of ListOffsets by name."""


@cache
def _batches() -> dict[str, str]:
    named: dict[str, str] = json.loads(BATCHES.read_text())
    return named


def _produced(
    world: World, where: tuple[str, int], raw: bytes, transactional_id: str | None = None, *, version: int | None = 9
) -> str:
    data = [TopicProduceData(where[0], partition_data=[PartitionProduceData(index=where[1], records=raw)])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=data)
    return name_of(world.call(request, version).responses[0].partition_responses[0].error_code)


@verb
def store(world: World, words: Words) -> str:
    """Produce a batch of `tests.support.framings`, or a batch of batches.json. Command: ``store t lz4/linked``."""
    name = words.plain[1]
    raw = framed(name) if "/" in name else bytes.fromhex(_batches()[name])
    return _produced(world, world.partition(words.plain[0]), raw)


@verb
def times(world: World, words: Words) -> str:
    """Produce one batch of records with these timestamps.

    Command: ``times t 5,-1,7 [age=ms] [codec=gzip]``. With ``age`` the timestamps are relative to a time ``age`` ms ago.
    """
    stamps = [int(text) for text in words.plain[1].split(",")]
    base = world.broker.now_ms() - words.number("age", 0) if "age" in words.options else 0
    first = base + stamps[0]
    payload = b"".join(record(delta=i, timestamp_delta_ms=base + stamp - first) for i, stamp in enumerate(stamps))
    codec = CODECS[words.options.get("codec", "none")]
    raw = batch(
        compress(payload, codec), count=len(stamps), attributes=codec, timestamp_ms=first, max_timestamp_ms=base + max(stamps)
    )
    return _produced(world, world.partition(words.plain[0]), raw)


@verb
def identities(world: World, words: Words) -> str:
    """Produce a batch for each combination of producer epoch and sequence, and show the errors.

    Command: ``identities t pid=7|A [bits=control] [n=1] [said=1] [id=x] [v=9]``. Epochs and sequences are each -1, -2, 0 and 5.
    Each batch is the first batch of a partition of its own. ``said`` is the number of records in the batch's header.
    """
    topic, count = world.real(words.plain[0]), words.number("n", 1)
    payload = b"".join(record(delta=i) for i in range(count))
    real = world.real(words.options["id"]) if "id" in words.options else None
    if real is not None:
        oracle.coordinator_known(world, real, oracle.TRANSACTION)
    given = words.options["pid"]
    pid = world.actors[given].pid if given in world.actors else int(given)
    rows = []
    for row, epoch in enumerate(EPOCHS):
        codes = []
        for column, sequence in enumerate(SEQUENCES):
            raw = batch(
                payload,
                count=words.number("said", count),
                last_offset_delta=count - 1,
                attributes=BITS[words.options.get("bits", "none")],
                timestamp_ms=world.broker.now_ms(),
                producer=(pid, epoch, sequence),
            )
            codes.append(_produced(world, (topic, row * len(SEQUENCES) + column), raw, real, version=words.version(9)))
        rows.append(f"e{epoch}: " + (codes[0] if len(set(codes)) == 1 else " ".join(codes)))
    return " | ".join(rows)


@verb
def special(world: World, words: Words) -> str:
    """Send ListOffsets for each special timestamp; ``stamp`` in the output means that the response has a timestamp.

    Command: ``special t [committed]``.
    """
    name, index = world.partition(words.plain[0])
    found = []
    for label, timestamp in SPECIAL.items():
        part = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(words.has("committed")),
            topics=[ListOffsetsTopic(name=name, partitions=[part])],
            timeout_ms=TIMEOUT_MS,
        )
        answer = world.call(request, 11).topics[0].partitions[0]
        stamp = " stamp" if answer.timestamp >= 0 else ""
        found.append(f"{label}={answer.offset}{stamp}" if not answer.error_code else f"{label}={name_of(answer.error_code)}")
        if answer.leader_epoch > 0 or (answer.leader_epoch < 0) != (answer.offset < 0):
            found[-1] += f" e{answer.leader_epoch}"
    return " ".join(found)
