"""The events of one open page, without a broker and without real waiting."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import structlog

from ottla.client.errors import KafkaAnswered, TimedOut, UnknownTopic
from ottla.console import site
from ottla.console.page_request import LastRead
from ottla.console.site import LONGEST_INTERVAL_S, REST, SILENCE_S, OpenPage
from ottla.control.command import CommandRefused
from ottla.control.pages import Reach
from ottla.protocol.errors import Code, KafkaError


class Client:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class OpenPageWorld:
    """A clock that advances while a page waits, and the values that the page reads."""

    def __init__(self, values: Iterator[Any], reading_s: float = 0.0, *, has_records: bool = True) -> None:
        self.now_s = 100.0
        self.read_at_s: list[float] = []
        self.clients: list[Client] = []
        self.closed = 0
        self.has_left = False
        self._values = values
        self._reading_s = reading_s
        self._has_records = has_records
        self._is_closed = threading.Event()

    def page(self) -> OpenPage:
        is_closed = SimpleNamespace(wait=self._wait, is_set=self._is_closed.is_set)
        reach = Reach(
            bootstrap="127.0.0.1:9092",
            own_addresses=frozenset(),
            open_connection=cast(Any, None),
            loop=cast(Any, None),
            is_closed=cast(Any, is_closed),
            has_left=lambda: self.has_left,
        )
        return OpenPage("messages", self._read, {"key": "SECRET"}, reach, self._client, self._close)

    def _wait(self, timeout_s: float) -> bool:
        self.now_s += timeout_s
        return self._is_closed.is_set()

    def close_control_api(self) -> None:
        self._is_closed.set()

    def _read(self, asked: Any) -> Any:
        self.read_at_s.append(self.now_s)
        self.now_s += self._reading_s
        if self._has_records:
            asked.client()
        value = next(self._values)
        if isinstance(value, Exception):
            raise value
        return value

    def _client(self, reach: Reach, check: Callable[[], None]) -> Any:
        self.clients.append(Client())
        return self.clients[-1]

    def _close(self) -> None:
        self.closed += 1


@pytest.fixture
def world_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., OpenPageWorld]:
    def made(values: Iterator[Any], reading_s: float = 0.0) -> OpenPageWorld:
        world = OpenPageWorld(values, reading_s)
        monkeypatch.setattr(site, "time", SimpleNamespace(monotonic=lambda: world.now_s))
        return world

    return made


def data_of(event: bytes) -> tuple[str, Any]:
    kind, data = event.decode().removesuffix("\n\n").split("\n")
    return kind.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))


def test_console_page_values_are_sent_when_changed(world_of: Callable[..., OpenPageWorld]) -> None:
    page = world_of(iter([1, 1, 1, 2, 2, 1])).page()
    assert [data_of(next(page)) for _ in range(3)] == [("values", 1), ("values", 2), ("values", 1)]


def test_unchanged_console_page_sends_keepalives(world_of: Callable[..., OpenPageWorld]) -> None:
    """Without keepalives, a browser with a dead connection would occupy its page slot forever."""
    world = world_of(itertools.repeat(1))
    page = world.page()
    next(page)
    begun_s = world.now_s
    assert next(page).startswith(b":")
    assert SILENCE_S <= world.now_s - begun_s < SILENCE_S + 1


@pytest.mark.parametrize("reading_s", [0.0, 0.01, 1.0, 60.0])
def test_slow_console_page_values_are_read_less_often(world_of: Callable[..., OpenPageWorld], reading_s: float) -> None:
    world = world_of(itertools.count(), reading_s)
    page = world.page()
    for _ in range(3):
        next(page)
    rest_s = world.read_at_s[2] - world.read_at_s[1] - reading_s
    assert rest_s >= min(REST * reading_s, LONGEST_INTERVAL_S)
    assert rest_s <= LONGEST_INTERVAL_S + 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownTopic("unknown topic 'x'", 3), 404),
        (KafkaError(Code.GROUP_ID_NOT_FOUND, "unknown group 'x'"), 404),
        (KafkaAnswered("unknown transactional id 'x'", Code.TRANSACTIONAL_ID_NOT_FOUND), 404),
        (KafkaAnswered("reading topic 'x'", Code.NOT_LEADER_OR_FOLLOWER), 409),
        (KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading"), 409),
        (TimedOut("no answer"), 409),
        (CommandRefused(400, "what"), 400),
        (KafkaError(Code.KAFKA_STORAGE_ERROR, "the disk is gone"), 409),
    ],
)
def test_console_page_reports_read_errors_in_one_line(
    world_of: Callable[..., OpenPageWorld], error: Exception, status: int
) -> None:
    page = world_of(iter([error, 5])).page()
    kind, answer = data_of(next(page))
    assert (kind, answer["status"]) == ("refused", status)
    assert answer["error"] in str(error)
    assert data_of(next(page)) == ("values", 5), "the page continues after the error"


def test_bug_in_a_console_page_is_logged_once_and_ends_the_page(world_of: Callable[..., OpenPageWorld]) -> None:
    page = world_of(iter([ZeroDivisionError("a bug"), 5])).page()
    with structlog.testing.capture_logs() as logged:
        assert [data_of(event)[1]["status"] for event in page] == [500]
    assert [(one["event"], one["log_level"], one["page"]) for one in logged] == [("console_page_failed", "error", "messages")]
    assert "SECRET" not in str(logged)


def test_console_replaces_connections_to_an_unresponsive_broker(world_of: Callable[..., OpenPageWorld]) -> None:
    world = world_of(iter([1, TimedOut("no answer"), 2]))
    page = world.page()
    for _ in range(3):
        next(page)
    assert [client.is_closed for client in world.clients] == [True, False]
    page.close()
    assert all(client.is_closed for client in world.clients)
    assert world.closed == 1


def test_console_page_without_records_needs_no_kafka_client() -> None:
    world = OpenPageWorld(iter([1]), has_records=False)
    page = world.page()
    assert data_of(next(page)) == ("values", 1)
    page.close()
    assert world.clients == []


def test_console_page_values_are_read_again_only_if_their_change_key_differs() -> None:
    last_read, reads = LastRead(), itertools.count()

    def fail() -> int:
        raise TimedOut("no answer")

    assert [last_read.get(key, lambda: next(reads)) for key in ("a", "a", "b", "b", None, None, "b")] == [0, 0, 1, 1, 2, 3, 4]
    with pytest.raises(TimedOut):
        last_read.get("c", fail)
    assert last_read.get("b", lambda: next(reads)) == 5, "a failed read caches no values"


def test_console_page_ends_when_its_browser_or_control_api_closes(world_of: Callable[..., OpenPageWorld]) -> None:
    world = world_of(itertools.repeat(1))
    page = world.page()
    next(page)
    world.has_left = True
    with pytest.raises(StopIteration):
        next(page)
    world = world_of(itertools.repeat(1))
    page = world.page()
    next(page)
    world.close_control_api()
    with pytest.raises(StopIteration):
        next(page)
