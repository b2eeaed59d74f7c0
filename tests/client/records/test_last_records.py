"""The newest records of a topic, read in windows from the end backwards, with gaps and with several partitions."""

from __future__ import annotations

import pytest

from ottla.client.records import last_records as module
from ottla.client.records.last_records import last_records
from ottla.client.records.reading import Isolation
from tests.client.records.test_reading import END, STABLE, OnePartition, batch
from tests.client.scripted import ScriptedCluster


def newest(partition: OnePartition, count: int, isolation: Isolation = "committed", start: int = 0) -> list[int]:
    end = STABLE if isolation != "all" else END
    brokers = ScriptedCluster(kafka=partition.broker).brokers()
    found = last_records(brokers, "t", count, isolation, partitions=[0], start={0: start}, end={0: min(end, partition.end)})
    return [record.offset for record in found]


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_search_for_the_last_records_reads_larger_offset_ranges_until_it_has_enough(
    monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(module, "FIRST_WINDOW", window)
    assert newest(OnePartition(), 1) == [5]
    assert newest(OnePartition(), 2) == [3, 5]
    assert newest(OnePartition(), 9) == [0, 3, 5]
    assert newest(OnePartition(), 2, "aborted") == [1, 2]
    assert newest(OnePartition(), 3, "all") == [3, 5, 8]


def test_search_for_the_last_records_begins_no_earlier_than_start_offset_and_log_start() -> None:
    assert newest(OnePartition(), 9, start=1) == [3, 5]
    assert newest(OnePartition(), 9, "all", start=8) == [8]
    assert newest(OnePartition(start=3), 9, "all") == [3, 5, 8]
    assert newest(OnePartition(start=9), 9, "all") == []


def test_last_records_of_a_large_topic_are_read_from_its_end() -> None:
    partition = OnePartition([batch(at, b"v") for at in range(1_000)], at_once=1_000, stable=1_000, end=1_000)
    brokers = ScriptedCluster(kafka=partition.broker).brokers()
    found = last_records(brokers, "t", 3, partitions=[0], start={}, end={0: 1_000})
    assert [record.offset for record in found] == [997, 998, 999]
    fetched = [request.topics[0].partitions[0].fetch_offset for name, _, request in partition.broker.asked if name == "Fetch"]
    assert min(fetched) == 900


def test_only_matching_records_count_as_last_records() -> None:
    partition = OnePartition([batch(at, b"v%d" % at) for at in range(300)], at_once=300, stable=300, end=300)
    brokers = ScriptedCluster(kafka=partition.broker).brokers()
    found = last_records(brokers, "t", 2, partitions=[0], start={}, end={0: 300}, matches=lambda record: record.offset % 140 == 0)
    assert [record.offset for record in found] == [140, 280]
