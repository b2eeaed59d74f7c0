"""Tests the comparison of the brokers' log files at the end of a chaos run."""

from __future__ import annotations

from tests.chaos.observe import differences

WHERE = ("t", 0)


def test_replica_comparison_reports_nothing_for_equal_replicas() -> None:
    assert differences({1: {WHERE: {0: (2, 5, 77)}}, 2: {WHERE: {0: (2, 5, 77)}}}) == []


def test_replica_comparison_reports_a_batch_with_another_leader_epoch() -> None:
    (line,) = differences({1: {WHERE: {0: (2, 5, 77)}}, 2: {WHERE: {0: (2, 6, 77)}}})
    assert line == "replicas differ: ('t', 0) in 1 batches, from offset 0 on: (2, 5, 77) on broker 1, (2, 6, 77) on broker 2"


def test_replica_comparison_reports_a_missing_batch() -> None:
    (line,) = differences({1: {WHERE: {0: (2, 5, 77)}}, 2: {WHERE: {0: (2, 5, 77), 2: (3, 5, 8)}}})
    assert "from offset 2 on: None on broker 1, (3, 5, 8) on broker 2" in line


def test_replica_comparison_skips_a_broker_without_a_replica() -> None:
    assert differences({1: {WHERE: {0: (2, 5, 77)}}, 2: {}}) == []
