"""The plan and the records of a campaign that kills Spark's processes."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("pyspark")

from tools.spark_kills import LARGE_EVERY, VICTIMS, plan, record


def test_spark_kill_plan_kills_each_kind_of_process_once_before_it_repeats_one() -> None:
    victims = plan(seed=3, kills=12)
    assert len(victims) == 12
    assert set(victims[:5]) == set(victims[5:10]) == set(VICTIMS)
    assert victims == plan(seed=3, kills=12)
    assert max(Counter(victims).values()) - min(Counter(victims).values()) <= 1


def test_records_of_the_spark_kill_campaign_are_numbered_and_some_are_large() -> None:
    records = [record(number) for number in range(2 * LARGE_EVERY)]
    assert [int(one.value or b"") for one in records] == list(range(2 * LARGE_EVERY))
    assert [number for number, one in enumerate(records) if len(one.value or b"") > 16 << 10] == [0, LARGE_EVERY]
