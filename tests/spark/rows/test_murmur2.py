"""Kafka's murmur2 hash, compared with aiokafka's pure Python version."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("numpy")

from aiokafka.partitioner import murmur2 as reference

from ottla.spark.rows.murmur2 import murmur2, partitions_for


def test_murmur2_hashes_equal_the_reference() -> None:
    rng = random.Random(1)
    keys = [rng.randbytes(rng.randrange(40)) for _ in range(3_000)] + [b"", b"\xff" * 4, b"21", b"foobar"]
    assert [int(h) & 0xFFFFFFFF for h in murmur2(keys)] == [reference(k) & 0xFFFFFFFF for k in keys]


def test_records_without_a_key_are_distributed_round_robin() -> None:
    assert partitions_for([None] * 5, 3, start=2) == [2, 0, 1, 2, 0]
    assert partitions_for([], 3) == []


def test_partitions_of_record_keys_equal_those_of_kafka() -> None:
    keys = [b"key-%d" % n for n in range(1_000)]
    assert partitions_for(keys, 7) == [(reference(k) & 0x7FFFFFFF) % 7 for k in keys]
