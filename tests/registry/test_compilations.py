"""Schemas are compiled one at a time, the smallest first, and the cache has a maximum size."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest

from ottla.client.security import http_client
from ottla.registry import compilations as limits
from ottla.registry import server
from ottla.registry.comparison import Comparison, CompleteSchema
from ottla.registry.compilations import CompilationQueue, Compilations, SizedCache
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.formats import types
from ottla.registry.schema_text import JSON, NamedText, SchemaText

TIMEOUT_S = 60.0


def started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def wait_until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s
        threading.Event().wait(0.001)


class WaitingThreads:
    """Threads that wait for a turn. ``order`` has the sizes of those that got it."""

    def __init__(self, turns: CompilationQueue) -> None:
        self.turns = turns
        self.order: list[int] = []
        self.threads: list[threading.Thread] = []

    def add(self, size: int) -> None:
        """Start a thread, and return when it waits."""

        def run() -> None:
            with self.turns.turn(size):
                self.order.append(size)

        before = self.turns.waiting
        self.threads.append(started(run))
        wait_until(lambda: self.turns.waiting == before + 1)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(TIMEOUT_S)


def refused(turns: CompilationQueue, size: int = 1) -> RegistryError:
    with pytest.raises(RegistryError) as caught, turns.turn(size):
        pass
    assert "\n" not in str(caught.value)
    return caught.value


def test_smallest_waiting_schema_is_compiled_next() -> None:
    queue = WaitingThreads(CompilationQueue())
    with queue.turns.turn(1):
        for size in (700, 30, 500, 30):
            queue.add(size)
        assert queue.order == []
    queue.join()
    assert queue.order == [30, 30, 500, 700]
    with queue.turns.turn(1):
        assert queue.turns.waiting == 0


def test_schemas_beyond_the_maximum_are_refused_until_one_is_compiled() -> None:
    queue = WaitingThreads(CompilationQueue(max_waiting=2))
    with queue.turns.turn(1):
        queue.add(5)
        queue.add(6)
        error = refused(queue.turns)
        assert (error.code, error.status) == (RegistryCode.BUSY, 503)
        assert str(error) == "2 schemas wait to be compiled, which is the maximum; try again later"
    queue.join()
    with queue.turns.turn(1):
        pass


def test_schema_that_has_waited_too_long_is_refused() -> None:
    turns = CompilationQueue(wait_s=0.01)
    with turns.turn(1):
        assert "the schema was not compiled within 0.01 s" in str(refused(turns))
        assert turns.waiting == 0
    with turns.turn(1):
        pass


def test_request_gets_its_response_before_a_client_gives_up_and_leaves_connections_to_others() -> None:
    turns_of_a_registration = 3
    assert turns_of_a_registration * limits.WAIT_S < http_client.TIMEOUT_S
    assert limits.MAX_WAITING + 1 < server.MAX_CONNECTIONS


def test_size_of_a_comparison_includes_old_versions_and_references(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = CompilationQueue()
    original, sizes = turns.turn, list[int]()
    monkeypatch.setattr(turns, "turn", lambda size: sizes.append(size) or original(size))
    small, large = SchemaText(kind=JSON, text="{}"), SchemaText(kind=JSON, text='{"title": "large"}')
    references = (NamedText(name="a", text="true"),)
    new, old = CompleteSchema(schema=small, references=references), CompleteSchema(schema=large, references=())
    assert Compilations(turns).incompatible(Comparison(level="BACKWARD", new=new, old=((1, old),))) == []
    assert sizes == [len(small.text) + len("true") + len(large.text)]


def test_error_of_a_compiler_ends_the_turn() -> None:
    compilations = Compilations(CompilationQueue(wait_s=0.01))
    for _ in range(2):
        with pytest.raises(RegistryError, match="Invalid schema of type JSON"):
            compilations.parse(JSON, "{", ())
    assert compilations.parse(JSON, "{}", ()).text == "{}"


def test_same_schema_is_compiled_once_for_threads_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    original, parsed = types.parse, []
    turns = CompilationQueue()
    compilations = Compilations(turns)
    monkeypatch.setattr(types, "parse", lambda kind, text, references: parsed.append(text) or original(kind, text, references))
    with turns.turn(1):
        threads = [started(lambda: compilations.parse(JSON, '{"title": "a"}', ()) and None) for _ in range(5)]
        wait_until(lambda: turns.waiting == 5)
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert parsed == ['{"title": "a"}']


def test_cached_schema_waits_for_no_turn() -> None:
    turns = CompilationQueue(wait_s=0.01)
    compilations = Compilations(turns)
    text = json.dumps({"title": "a"})
    schema = SchemaText(kind=JSON, text=text)
    compilations.parse(JSON, text, ())
    compilations.prepare(schema)
    with turns.turn(1):
        assert compilations.parse(JSON, text, ()).text == '{"title":"a"}'
        compilations.prepare(schema)
        assert compilations.identity(schema) == types.identity(schema)
        with pytest.raises(RegistryError, match="the schema was not compiled"):
            compilations.parse(JSON, "true", ())


def test_cache_forgets_what_was_used_longest_ago() -> None:
    cache: SizedCache[str, int] = SizedCache(10)
    for name in "abc":
        cache.put(name, 1, 4)
    assert [cache.get(name) for name in "abc"] == [None, 1, 1]
    cache.get("b")
    cache.put("d", 1, 4)
    assert [cache.get(name) for name in "bcd"] == [1, None, 1]
    cache.put("d", 2, 6)
    assert [cache.get(name) for name in "bd"] == [1, 2]
    cache.put("large", 1, 11)
    assert [cache.get(name) for name in ("b", "d", "large")] == [1, 2, None]
