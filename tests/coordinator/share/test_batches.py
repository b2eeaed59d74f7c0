"""Overlapping state batches of a share partition are combined per offset."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.share_state.batches import NO_OFFSET, StateBatch, combine, most_combined
from ottla.coordinator.share_state.states import VALID_NEXT, IllegalRecordTransition, RecordState, check_transition
from tests.support.counting import Limit, Meter, check_best

BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 3),
    ),
    max_size=6,
)


def by_offset(*batches: StateBatch) -> dict[int, tuple[int, int]]:
    """Return delivery count and state of each offset. If batches overlap, the higher (count, state) pair wins."""
    says: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            says[offset] = max(says.get(offset, (-1, -1)), (count, state))
    return says


@given(BATCHES, BATCHES, st.integers(NO_OFFSET, 40))
def test_overlapping_share_state_batches_combine_by_offset(
    before: list[StateBatch], after: list[StateBatch], start_offset: int
) -> None:
    combined = combine(combine((), before, NO_OFFSET), after, start_offset)
    assert by_offset(*combined) == {o: says for o, says in by_offset(*before, *after).items() if o >= start_offset}
    for one, two in pairwise(combined):
        assert one.last_offset < two.first_offset
        assert one.last_offset + 1 < two.first_offset or one[2:] != two[2:], "adjacent equal batches are merged"


@pytest.mark.parametrize(
    ("before", "after", "start_offset", "combined"),
    [
        pytest.param([(100, 110, 0, 1)], [(105, 115, 0, 2)], -1, [(100, 104, 0, 1), (105, 115, 0, 2)], id="a later delivery"),
        pytest.param([(100, 110, 2, 1)], [(100, 110, 0, 1)], -1, [(100, 110, 2, 1)], id="an acknowledgement is final"),
        pytest.param(
            [(100, 120, 0, 1)], [(105, 110, 2, 1)], -1, [(100, 104, 0, 1), (105, 110, 2, 1), (111, 120, 0, 1)], id="inside"
        ),
        pytest.param([(100, 109, 0, 1)], [(110, 119, 0, 1)], 105, [(105, 119, 0, 1)], id="adjacent batches, and the start offset"),
        pytest.param([(100, 109, 0, 1)], [], 110, [], id="all below the start offset"),
        pytest.param([(9, 3, 0, 1), (5, 1, 2, 2)], [(2, 4, 0, 1)], -1, [(2, 4, 0, 1)], id="ends before it begins"),
    ],
)
def test_combined_share_state_batches_keep_the_latest_delivery(
    before: list[tuple[int, int, int, int]],
    after: list[tuple[int, int, int, int]],
    start_offset: int,
    combined: list[tuple[int, int, int, int]],
) -> None:
    earlier = combine((), (StateBatch(*b) for b in before), NO_OFFSET)
    assert list(combine(earlier, (StateBatch(*b) for b in after), start_offset)) == combined


def test_illegal_share_record_state_transitions_raise() -> None:
    for before in RecordState:
        for after in RecordState:
            if after in VALID_NEXT[before]:
                check_transition(before, after)
            else:
                with pytest.raises(IllegalRecordTransition, match=f"{before.name} -> {after.name}"):
                    check_transition(before, after)


def test_combining_share_state_batches_takes_bounded_time(meter: Meter) -> None:
    """Nested batches with different delivery counts are the worst case. Examining all batches per offset would take seconds."""
    count = meter.size(10_000)
    inside = [StateBatch(at, 4 * count - at, 0, at) for at in range(count)]

    def attempt(_: int) -> None:
        combined = meter.run(lambda: combine((), inside, NO_OFFSET))
        assert len(combined) == 2 * count - 1
        again = meter.run(lambda: combine(combined, [StateBatch(2 * count, 2 * count, 2, 2 * count)], NO_OFFSET))
        assert len(again) == 2 * count + 1
        assert most_combined(len(combined), 1) == 2 * count + 1

    check_best(meter, Limit(lines=100 * count, ms=1_000), attempt)
