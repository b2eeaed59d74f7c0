"""Generated purchases: equal for equal seeds, skewed over users, some of them late and some malformed."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ottla.pipeline.generate import BLOCK_ROWS, LATE_MS, Workload, purchases, purchases_of
from ottla.spark.schemas.formats import AVRO


def test_purchase_generator_with_the_same_seed_gives_the_same_rows() -> None:
    assert list(purchases(Workload(500))) == list(purchases(Workload(500)))
    assert list(purchases(Workload(500))) != list(purchases(Workload(500, seed=2)))


@pytest.mark.smoke
def test_purchase_generator_gives_the_requested_fractions_of_malformed_and_late_purchases() -> None:
    workload = Workload(20_000, malformed_share=0.05, late_share=0.1)
    rows = list(purchases(workload))
    sound = [json.loads(row.value) for row in rows if row.is_sound]
    in_avro = list(purchases(workload, AVRO))
    assert [(row.key, row.at_ms, row.is_sound) for row in in_avro] == [(row.key, row.at_ms, row.is_sound) for row in rows]
    assert 0.04 < 1 - len(sound) / workload.rows < 0.06
    late = [row for number, row in enumerate(rows) if row.at_ms < workload.begin_ms + number * workload.step_ms]
    assert 0.08 < len(late) / workload.rows < 0.12
    assert all(workload.begin_ms + number * workload.step_ms - row.at_ms < LATE_MS for number, row in enumerate(rows))
    assert len({p["id"] for p in sound}) == len(sound)
    users = Counter(row.key for row in rows)
    assert sum(n for _, n in users.most_common(workload.users // 10)) > 0.25 * workload.rows


@pytest.mark.smoke
def test_blocks_of_purchases_are_generated_independently() -> None:
    workload = Workload(2 * BLOCK_ROWS + 100)
    whole = list(purchases(workload))
    assert list(purchases_of(workload, 1)) == whole[BLOCK_ROWS : 2 * BLOCK_ROWS]
    assert list(purchases_of(workload, 2)) == whole[2 * BLOCK_ROWS :]
    assert len(whole) == workload.rows
    assert [row.value for row in whole[:100]] != [row.value for row in whole[BLOCK_ROWS : BLOCK_ROWS + 100]]
