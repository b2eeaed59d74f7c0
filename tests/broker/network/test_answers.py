"""The order of responses, without a connection: whatever completes first, responses are sent in the order of the requests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.network.answers import Answers, Slot, merged


class Parked:
    """Stands in for a request in progress, and records its cancellation."""

    def __init__(self, cancelled: list[int], number: int = 0) -> None:
        self._cancelled = cancelled
        self._number = number

    def cancel(self) -> None:
        self._cancelled.append(self._number)


def text(answers: Answers) -> bytes:
    return b"".join(map(bytes, answers.out))


def test_response_is_sent_at_once_when_no_earlier_response_is_pending() -> None:
    answers = Answers()
    answers.put([b"a", b"b"])
    assert text(answers) == b"ab"
    assert len(answers) == 0


@given(waits=st.lists(st.booleans(), max_size=12), order=st.randoms(use_true_random=False))
def test_responses_are_sent_in_request_order(waits: list[bool], order: st.DataObject) -> None:
    answers, slots = Answers(), list[tuple[int, Slot]]()
    for number, is_waited_for in enumerate(waits):
        if is_waited_for:
            slots.append((number, answers.reserve()))
        else:
            answers.put([b"%d;" % number])
    order.shuffle(slots)  # type: ignore[attr-defined]
    filled = {number for number, is_waited_for in enumerate(waits) if not is_waited_for}
    for number, slot in slots:
        answers.fill(slot, [b"%d;" % number])
        filled.add(number)
        # All responses before the first pending response have been sent.
        ready = next((n for n in range(len(waits)) if n not in filled), len(waits))
        assert text(answers) == b"".join(b"%d;" % n for n in range(ready))
    assert text(answers) == b"".join(b"%d;" % n for n in range(len(waits)))
    assert len(answers) == answers.waiting_bytes == 0


def test_bytes_of_pending_responses_are_counted_until_they_are_sent() -> None:
    answers = Answers()
    first, second = answers.reserve(), answers.reserve()
    answers.wait(first, cast(Any, Parked([])), 100)
    answers.wait(second, cast(Any, Parked([])), 10)
    assert answers.waiting_bytes == 110
    answers.fill(second, [b"12345"])
    assert answers.waiting_bytes == 115, "bytes of a response that waits for earlier ones are counted"
    answers.fill(first, [b"1"])
    assert answers.waiting_bytes == 0


def test_pending_responses_are_dropped_when_the_connection_closes() -> None:
    answers, abandoned = Answers(), list[int]()
    for number in range(3):
        answers.wait(answers.reserve(), cast(Any, Parked(abandoned, number)), 1)
    answered = answers.reserve()
    answers.fill(answered, [b"ready"])
    answers.abandon()
    assert abandoned == [0, 1, 2]
    assert (len(answers), answers.waiting_bytes, answers.out) == (0, 0, [])


@given(st.lists(st.binary(max_size=12)))
def test_merging_small_response_buffers_changes_no_bytes(parts: list[bytes]) -> None:
    joined = merged(list(parts), small_bytes=6)
    assert b"".join(joined) == b"".join(parts)
    # Of two adjacent merged buffers, at least one contains a buffer of 6 bytes or more.
    is_large = [any(part is large for large in parts if len(large) >= 6) for part in joined]
    assert all(a or b for a, b in pairwise(is_large))
