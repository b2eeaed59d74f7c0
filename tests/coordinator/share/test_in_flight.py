"""In-flight batches of a share partition, which store one status for consecutive offsets of equal status."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.share_state.in_flight import UNSEEN, InFlightBatch, RecordStatus
from ottla.coordinator.share_state.states import RecordState

STATUSES = [UNSEEN, RecordStatus(RecordState.ACKNOWLEDGED, 1), RecordStatus(RecordState.ARCHIVED, 5)]
FIRST, LAST = 10, 29
OFFSETS = st.integers(FIRST, LAST)


@given(st.lists(st.tuples(OFFSETS, OFFSETS, st.sampled_from(STATUSES)), max_size=12), OFFSETS, OFFSETS)
def test_in_flight_share_batch_returns_the_status_assigned_to_each_offset(
    assigned: list[tuple[int, int, RecordStatus]], first: int, last: int
) -> None:
    batch, model = InFlightBatch(FIRST, LAST, UNSEEN), dict.fromkeys(range(FIRST, LAST + 1), UNSEEN)
    for one, two, status in assigned:
        batch.assign(min(one, two), max(one, two), status)
        model.update(dict.fromkeys(range(min(one, two), max(one, two) + 1), status))
    runs = list(batch.runs(first, last))
    assert {at: status for begin, end, status in runs for at in range(begin, end + 1)} == {
        at: status for at, status in model.items() if first <= at <= last
    }
    assert all(one[2] != two[2] and one[1] + 1 == two[0] for one, two in pairwise(runs))
    assert batch.common_status == (model[FIRST] if len(set(model.values())) == 1 else None)


def test_copied_in_flight_share_batch_is_independent_of_the_original() -> None:
    batch = InFlightBatch(FIRST, LAST, UNSEEN)
    batch.copy().assign(FIRST, FIRST, STATUSES[1])
    assert batch.common_status == UNSEEN


def test_memory_of_an_in_flight_share_batch_does_not_depend_on_its_offset_range() -> None:
    batch = InFlightBatch(0, 10**15, UNSEEN)
    batch.assign(5, 10**12, STATUSES[1])
    assert [(first, last) for first, last, _ in batch.all_runs()] == [(0, 4), (5, 10**12), (10**12 + 1, 10**15)]
    assert batch.finished_count(0) == 10**12 - 4
