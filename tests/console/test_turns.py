"""Pages read the broker's data in bounded steps, so that they hold its event loop only briefly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from ottla.client.topics import TopicListing
from ottla.console.overview import overview
from ottla.console.page_request import PARTITIONS_OF_A_TURN, Asked, clients_of
from ottla.console.topics import RANGES_SHOWN, ribbon, topic, topics
from ottla.control.history import Holder
from ottla.operations.stray_reports import StraySummary
from tests.console.endless import ENDLESS

T = TypeVar("T")
NO_STRAYS = SimpleNamespace(summary=lambda: StraySummary(count=0, size_bytes=0, named=[]))
LOG = SimpleNamespace(
    topic="orders",
    partition=0,
    log_start_offset=0,
    last_stable_offset=5,
    high_watermark=7,
    log_end_offset=7,
    size_bytes=3,
    leader_epoch=0,
)


class CountingBroker:
    """A broker with a topic of many partitions. It records how many partitions are read in each step on its event loop."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.read_in_turns: list[int] = []
        self._steered = SimpleNamespace(
            serving=SimpleNamespace(
                broker=SimpleNamespace(partitions=self, bootstrap="", cluster_id="", is_sound=True, problems=[], strays=NO_STRAYS),
                directory="",
            ),
            history=SimpleNamespace(newest=lambda count: []),
            faults=[],
            clock=None,
        )
        self._steered.serving.broker.unexpected_errors = 0

    def asked(self) -> Asked:
        listing = TopicListing(name="orders", topic_id=bytes(16), partitions=self.partitions, replicas=1, internal=False)
        client = SimpleNamespace(
            topics=lambda internal=False: [listing],
            brokers=SimpleNamespace(partitions=lambda name: list(range(self.partitions)), nodes=list),
            groups=lambda silent: [],
            transactions=lambda silent: [],
        )
        return Asked(query={"name": "orders"}, client=cast(Any, client), on_loop=self._on_loop, deadline=ENDLESS)

    def _on_loop(self, read: Callable[[Any], T]) -> T:
        self.read_in_turns.append(0)
        return read(self._steered)

    def _partition(self) -> Any:
        def log() -> Any:
            self.read_in_turns[-1] += 1
            return LOG

        return type("Partition", (), {"leader_id": 1, "log": property(lambda self: log()), "look_up": lambda self, read: {}})()

    def known(self, name: str, index: int) -> Any:
        return self._partition()

    def __iter__(self) -> Iterator[Any]:
        return iter([self._partition() for _ in range(self.partitions)])


def test_many_partitions_are_read_in_several_loop_turns() -> None:
    many = 3 * PARTITIONS_OF_A_TURN + 1
    world = CountingBroker(many)
    (row,) = topics(world.asked())["part"].rows
    assert (row["offsets"], row["waiting"], row["size_bytes"]) == (7 * many, 2 * many, 3 * many)
    assert max(world.read_in_turns) <= PARTITIONS_OF_A_TURN
    world = CountingBroker(many)
    shown = overview(world.asked())
    assert (shown["held_count"], shown["size_bytes"], len(shown["held"])) == (many, 3 * many, 20)
    assert max(world.read_in_turns) <= PARTITIONS_OF_A_TURN


def test_each_partition_of_a_topic_is_read_in_its_own_loop_turn() -> None:
    world = CountingBroker(7)
    assert len(topic(world.asked())["part"].rows) == 7
    assert max(world.read_in_turns) == 1


def test_only_the_newest_aborted_transactions_are_read() -> None:
    read: list[int] = []

    class Index:
        def __init__(self, first: int) -> None:
            self._first = first

        def __reversed__(self) -> Iterator[Any]:
            for offset in range(self._first + 9_999, self._first - 1, -1):
                read.append(offset)
                yield SimpleNamespace(first_offset=offset, last_offset=offset)

    segments = [SimpleNamespace(txn_index=Index(first)) for first in (0, 10_000)]
    producers = SimpleNamespace(has_any=False, open_txns={})
    log = cast(Any, SimpleNamespace(**vars(LOG) | {"producers": producers, "segments": segments, "log_end_offset": 20_000}))
    assert [one["first_offset"] for one in ribbon(log)["aborted"]] == list(range(20_000 - RANGES_SHOWN, 20_000))
    assert len(read) == RANGES_SHOWN
    log.log_start_offset = 19_998
    assert [one["first_offset"] for one in ribbon(log)["aborted"]] == [19_998, 19_999]


def test_owner_of_an_id_is_shown_without_reading_its_events() -> None:
    holder = Holder(client_id="till", client_host="127.0.0.1", since_ms=0)
    steered = cast(Any, SimpleNamespace(history=SimpleNamespace(holder={"shop": holder}.get)))
    assert clients_of(steered, ["shop", "other"]) == {"shop": "client till at 127.0.0.1"}
