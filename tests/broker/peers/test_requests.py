"""The queue of requests to a peer and the requests in flight."""

from __future__ import annotations

import pytest

from ottla.broker.peers.requests import OutOfOrder, Request, RequestLimits, Requests


def request(deadline_ms: float = 100.0, size_bytes: int = 10) -> Request:
    return Request(key=3, message=None, then=lambda _: None, deadline_ms=deadline_ms, size_bytes=size_bytes)


def sent(requests: Requests) -> int:
    """Send the next request and return its correlation id."""
    taken = requests.next()
    assert taken is not None
    correlation_id = requests.correlation_id()
    requests.sent(taken, correlation_id)
    return correlation_id


def test_peer_requests_are_sent_in_order_with_different_correlation_ids() -> None:
    requests, given = Requests(RequestLimits()), [request() for _ in range(3)]
    assert all(requests.add(one) for one in given)
    ids = [sent(requests) for _ in given]
    assert len(set(ids)) == 3
    assert [requests.awaited(correlation_id) for correlation_id in ids[:1]] == given[:1]
    for correlation_id, one in zip(ids, given, strict=True):
        assert requests.awaited(correlation_id) is one
        requests.answered(correlation_id)
    assert not len(requests)
    assert requests.in_flight_bytes == 0


def test_correlation_ids_of_peer_requests_wrap_around() -> None:
    requests = Requests(RequestLimits())
    requests._next_correlation_id = 0x7FFFFFFF
    assert [requests.correlation_id(), requests.correlation_id()] == [0x7FFFFFFF, 0]


@pytest.mark.parametrize("wrong", [1, 7, -1])
def test_out_of_order_response_of_a_peer_is_refused_and_changes_nothing(wrong: int) -> None:
    requests = Requests(RequestLimits())
    requests.add(request())
    requests.add(request())
    assert [sent(requests), sent(requests)] == [0, 1]
    with pytest.raises(OutOfOrder, match=f"correlation id {wrong} instead of 0"):
        requests.awaited(wrong)
    assert len(requests) == 2


def test_response_of_a_peer_with_unknown_correlation_id_is_refused() -> None:
    with pytest.raises(OutOfOrder, match="instead of none"):
        Requests(RequestLimits()).awaited(0)


def test_number_of_queued_peer_requests_is_limited() -> None:
    requests = Requests(RequestLimits(waiting=2))
    assert [requests.add(request()) for _ in range(3)] == [True, True, False]
    sent(requests)
    assert requests.add(request())


def test_number_of_peer_requests_in_flight_is_limited() -> None:
    requests = Requests(RequestLimits(in_flight=2))
    for _ in range(3):
        requests.add(request())
    first = sent(requests)
    sent(requests)
    assert requests.next() is None
    requests.answered(first)
    assert requests.next() is not None


def test_bytes_in_flight_to_a_peer_are_limited_except_for_a_single_request() -> None:
    requests = Requests(RequestLimits(in_flight_bytes=100))
    for size_bytes in (500, 1):
        requests.add(request(size_bytes=size_bytes))
    first = sent(requests)
    assert requests.next() is None
    requests.answered(first)
    assert requests.next() is not None


def test_next_deadline_of_a_peer_is_the_earliest_of_queued_and_sent_requests() -> None:
    requests = Requests(RequestLimits())
    late, early, later = request(30), request(10), request(50)
    for one in (late, early, later):
        requests.add(one)
    assert requests.next_deadline_ms() == 10
    sent(requests)
    assert requests.take_overdue(20) == [early]
    assert not requests.is_answer_overdue(29)
    assert requests.is_answer_overdue(30)
    assert requests.next_deadline_ms() == 30
    assert requests.take_in_flight() == [late]
    assert requests.next_deadline_ms() == 50
    assert requests.take_all() == [later]
    assert requests.next_deadline_ms() is None
