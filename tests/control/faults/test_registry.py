"""Which requests trigger a fault, and what is reported about its hits. These tests run without a broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest

from ottla.broker.handlers.registry import SERVED, declaration
from ottla.broker.hooks.interception import Ending, IncomingRequest, Point, Reached
from ottla.broker.network.intercepted import error_response
from ottla.control.faults.added_fault import HITS_KEPT
from ottla.control.faults.api_names import request_type, response_type
from ottla.control.faults.error_responses import CHANGING, READING, _element, _types
from ottla.control.faults.registry import MAX_FAULTS, AddedFault, Fault, FaultError, Faults
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.simulation.client import api_key, newest


@dataclass
class Known:
    """Topic names by topic id, and the partitions of a fetch session."""

    names: dict[bytes, str] = field(default_factory=dict)
    session: list[tuple[bytes, str, int]] = field(default_factory=list)

    def name_of(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)

    def of_fetch_session(self, session_id: int) -> Iterable[tuple[bytes, str, int]]:
        return self.session


def asked(request: Any, version: int | None = None, client_id: str = "c", known: Known | None = None) -> IncomingRequest:
    key = api_key(request)
    return IncomingRequest(
        api_key=key,
        version=newest(request) if version is None else version,
        client_id=client_id,
        connection_id=1,
        request=request,
        size_bytes=100,
        refusal=partial(error_response, declaration(key)),
        topics=known or Known(),
    )


def end(transactional_id: str = "x", *, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=transactional_id, producer_id=1, producer_epoch=0, committed=committed)


def produce(topic: str = "t", *indexes: int) -> ProduceRequest:
    parts = [PartitionProduceData(index=i, records=b"") for i in indexes or (0,)]
    return ProduceRequest(transactional_id=None, acks=1, topic_data=[TopicProduceData(name=topic, partition_data=parts)])


MATCHES: list[tuple[dict[str, Any], IncomingRequest, bool]] = [
    ({}, asked(end()), True),
    ({"api": "EndTxn"}, asked(end()), True),
    ({"api": "EndTxn"}, asked(produce()), False),
    ({"version": "3-5"}, asked(end(), 3), True),
    ({"version": "3-5"}, asked(end(), 2), False),
    ({"version": "4+"}, asked(end(), 5), True),
    ({"version": 4}, asked(end(), 5), False),
    ({"client_id": "checkout-?"}, asked(end(), client_id="checkout-1"), True),
    ({"client_id": "checkout-?"}, asked(end(), client_id="checkout-12"), False),
    ({"client_id": "a[1]"}, asked(end(), client_id="a[1]"), True),
    ({"transactional_id": "x*"}, asked(end("xyz")), True),
    ({"transactional_id": "x"}, asked(end("xyz")), False),
    ({"transactional_id": "x"}, asked(FindCoordinatorRequest(key_type=1, coordinator_keys=["y", "x"])), True),
    ({"transactional_id": "x"}, asked(FindCoordinatorRequest(key_type=0, coordinator_keys=["x"])), False),
    ({"group": "x"}, asked(FindCoordinatorRequest(key_type=0, key="x"), 3), True),
    ({"topic": "t"}, asked(produce("t"), 9), True),
    ({"topic": "t"}, asked(produce("u"), 9), False),
    ({"topic": "t", "partition": 2}, asked(produce("t", 0, 2), 9), True),
    ({"topic": "t", "partition": 1}, asked(produce("t", 0, 2), 9), False),
    ({"partition": 0}, asked(produce("t", 0, 2), 9), True),
    ({"topic": "t"}, asked(MetadataRequest(None)), True),
    ({"topic": "t"}, asked(MetadataRequest([])), False),
    ({"topic": "t"}, asked(MetadataRequest([MetadataRequestTopic(topic_id=b"1" * 16)]), known=Known({b"1" * 16: "t"})), True),
    ({"topic": "t", "partition": 3}, asked(FetchRequest(session_id=7), 12, known=Known(session=[(b"", "t", 3)])), True),
    ({"topic": "t", "partition": 3}, asked(FetchRequest(session_id=7), 12, known=Known(session=[(b"", "u", 3)])), False),
    ({"api": "EndTxn", "fields": {"committed": False}}, asked(end(committed=False)), True),
    ({"api": "EndTxn", "fields": {"committed": False}}, asked(end(committed=True)), False),
]


@pytest.mark.parametrize(("given", "request_", "is_hit"), MATCHES)
def test_fault_hits_only_requests_that_meet_all_its_conditions(
    given: dict[str, Any], request_: IncomingRequest, is_hit: bool
) -> None:
    faults = Faults()
    added = faults.add(Fault(**given, cut="before"))
    is_watched = request_.api_key in faults.watched_keys
    verdict = faults.intercept(request_) if is_watched else None
    assert (verdict is not None, added.hits) == (is_hit, int(is_hit))


def requests_hit(faults: Faults, count: int, request: Any = None) -> list[bool]:
    return [faults.intercept(asked(request or end())) is not None for _ in range(count)]


def test_fault_with_nth_and_times_hits_that_many_requests_from_the_nth_match_on() -> None:
    faults = Faults()
    added = faults.add(Fault(api="EndTxn", nth=3, times=2, cut="before"))
    assert requests_hit(faults, 6) == [False, False, True, True, False, False]
    assert (added.matched, added.hits, added.is_spent) == (4, 2, True)


def test_fault_hits_by_probability_are_reproducible() -> None:
    def played(seed: int) -> list[bool]:
        faults = Faults()
        faults.add(Fault(api="EndTxn", probability=0.3, seed=seed, cut="before"))
        return requests_hit(faults, 200)

    assert played(1) == played(1) != played(2)
    assert 30 <= sum(played(1)) <= 90


def test_fault_with_probability_0_hits_no_request_and_with_1_all() -> None:
    faults = Faults()
    faults.add(Fault(api="EndTxn", probability=0, cut="before"))
    assert not any(requests_hit(faults, 50))
    faults.add(Fault(api="EndTxn", probability=1, times=None, cut="before"))
    assert all(requests_hit(faults, 50))


def test_first_added_fault_takes_precedence_until_its_hits_are_used_up() -> None:
    """As in kfake, control functions for the same key are tried in the order in which they were added."""
    faults = Faults()
    for cut in ("before", "after"):
        faults.add(Fault(api="EndTxn", cut=cut))
    first, second, third = (faults.intercept(asked(end())) for _ in range(3))
    assert first is not None and second is not None and third is None
    assert [first.takes_effect, second.takes_effect] == [False, True]


def test_observing_and_delaying_faults_do_not_block_other_faults() -> None:
    faults = Faults()
    seen = faults.add(Fault(api="EndTxn", observe=True))
    slow = faults.add(Fault(api="EndTxn", delay_ms=5, times=None))
    faults.add(Fault(api="EndTxn", drop_answer=True))
    verdict = faults.intercept(asked(end()))
    assert verdict is not None
    assert ([delay.ms for delay in verdict.delays_before], verdict.ending) == ([5], Ending.SILENCE)
    assert (seen.hits, slow.hits) == (1, 1)


def test_no_api_is_intercepted_without_faults() -> None:
    faults = Faults()
    assert not faults.watched_keys and not faults.watched_points
    one, all_, point = (
        faults.add(Fault(**given)) for given in ({"api": 26, "cut": "before"}, {"cut": "after"}, {"kill": "after-prepare"})
    )
    assert set(SERVED) <= set(faults.watched_keys)
    assert set(faults.watched_points) == {Point.AFTER_PREPARE}
    all_.remove()
    assert set(faults.watched_keys) == {26}
    requests_hit(faults, 1)
    assert not faults.watched_keys
    assert faults.all() == [one, point]
    faults.clear()
    assert not faults.watched_points and not len(faults)


def test_added_fault_calls_its_hit_callbacks_and_is_found_by_id() -> None:
    faults, called = Faults(), list[int]()
    added = faults.add(Fault(api="EndTxn", transactional_id="checkout-*", drop_answer=True, times=2))
    added.on_hit.append(lambda one: called.append(one.hits))
    added.when_hits(2, lambda: called.append(-2))
    taken_back = added.when_hits(1, lambda: called.append(-1))
    taken_back()
    requests_hit(faults, 3, end("checkout-7"))
    assert called == [1, 2, -2]
    added.when_hits(1, lambda: called.append(-1))
    assert called == [1, 2, -2, -1]
    assert faults.get(added.id) is added
    assert "checkout-*" in repr(added) and "2 hits" in repr(added)
    assert faults.remove(added.id) and not faults.remove(added.id)
    added.remove()
    assert faults.get(added.id) is None


def test_newest_fault_hits_are_shown_with_shortened_requests() -> None:
    faults = Faults()
    added = faults.add(Fault(observe=True))
    faults.intercept(asked(end("x"), client_id="c1"))
    large = produce("t" * 300, *range(50))
    faults.intercept(asked(large, 9))
    shown = msgspec.json.decode(msgspec.json.encode(added.view()))
    assert shown["hits"] == 2 and shown["fault"] == {"observe": True}
    assert shown["newest_hits"][0]["request"]["transactional_id"] == "x"
    assert (shown["newest_hits"][0]["api"], shown["newest_hits"][0]["client_id"]) == ("EndTxn", "c1")
    topic = shown["newest_hits"][1]["request"]["topic_data"][0]
    assert len(topic["name"]) == 203 and topic["partition_data"][-1] == "and 30 more"
    requests_hit(faults, HITS_KEPT)
    assert (len(added.newest_hits), added.hits) == (HITS_KEPT, HITS_KEPT + 2)


def test_number_of_faults_is_limited() -> None:
    faults = Faults()
    for _ in range(MAX_FAULTS):
        faults.add(Fault(kill="after-prepare"))
    with pytest.raises(
        FaultError, match="there are 200 faults, and at most 200 are allowed; remove faults that are no longer needed"
    ):
        faults.add(Fault(kill="after-prepare"))
    faults.remove(1)
    with pytest.raises(FaultError, match="there are 199 faults, and at most 200"):
        faults.add_all([Fault(kill="after-prepare")] * 2)
    assert len(faults.all()) == MAX_FAULTS - 1, "either all faults are added or none"


def test_fault_hit_callback_may_remove_the_fault() -> None:
    faults = Faults()
    added = faults.add(Fault(api="EndTxn", hold="before"))
    added.on_hit.append(AddedFault.remove)
    verdict = faults.intercept(asked(end()))
    assert verdict is not None and verdict.held_before is not None and verdict.held_before.is_open


def at(point: Point = Point.BETWEEN_MARKERS, transactional_id: str = "x", written: int = 1, topic: str = "t") -> Reached:
    return Reached(point, transactional_id, 1, 0, True, written, topic, 0)


def test_fault_matches_a_point_of_a_transaction() -> None:
    killed = list[str]()
    faults = Faults(kill=lambda: killed.append("killed"))
    added = faults.add(Fault(kill="between-markers", after_markers=2, topic="u", transactional_id="x"))
    assert faults.reached(at(written=1, topic="u")) is None
    assert faults.reached(at(written=2, topic="t")) is None
    assert faults.reached(at(written=2, topic="u", transactional_id="y")) is None
    assert not killed
    faults.reached(at(written=2, topic="u"))
    assert killed == ["killed"] and added.hits == 1


def test_transaction_that_a_fault_holds_is_counted_as_one_hit() -> None:
    faults = Faults()
    added = faults.add(Fault(hold="before-prepare", times=1))
    latch = faults.reached(at(Point.BEFORE_PREPARE))
    assert latch is not None and not latch.is_open
    assert faults.reached(at(Point.BEFORE_PREPARE)) is latch
    assert faults.reached(at(Point.BEFORE_PREPARE, transactional_id="y")) is None
    assert added.hits == 1
    added.remove()
    assert latch.is_open and faults.reached(at(Point.BEFORE_PREPARE)) is None


@pytest.mark.smoke
def test_kill_fault_ends_the_process_like_sigkill() -> None:
    """The process ends without running exit handlers."""
    program = "import atexit; from ottla.control.faults.registry import kill_process as kill; atexit.register(print, 1); kill()"
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert (ended.returncode, ended.stdout) == (137, b"")


@pytest.mark.parametrize("key", sorted(SERVED))
def test_fault_can_refuse_requests_of_every_api(key: int) -> None:
    """The error response can be encoded in every version, whatever fields the request lacks."""
    from ottla.protocol.codec import api, response_parts

    request = request_type(key)()
    faults = Faults()
    faults.add(Fault(api=key, error="UNKNOWN_SERVER_ERROR", times=None))
    faults.add(Fault(api=key, throttle_ms=5, times=None))
    codec = api(key)
    for version in range(codec.min_version, codec.max_version + 1):
        verdict = faults.intercept(asked(request, version))
        assert verdict is not None
        if verdict.response is not None:
            assert response_parts(codec, version, 1, verdict.response)


@pytest.mark.parametrize("key", [*CHANGING, *READING])
def test_topic_field_paths_for_faults_exist_in_requests_and_responses(key: int) -> None:
    for shape in (*CHANGING.get(key, ()), *READING.get(key, ())):
        request, response = request_type(key), response_type(key)
        if shape.within[0]:
            request, response = _element(request, shape.within[0]), _element(response, shape.within[1])
            assert {shape.within[2]} <= set(request.__struct_fields__) & set(response.__struct_fields__)
        assert shape.topics in request.__struct_fields__
        topic, _ = _types(response, shape)
        if shape.partitions:
            assert shape.partitions in _element(request, shape.topics).__struct_fields__
        else:
            assert "error_code" in topic.__struct_fields__
