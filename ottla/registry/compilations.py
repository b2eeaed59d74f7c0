"""Parses and compares schemas, one at a time, and caches the results.

The compilers are Python code and run on the HTTP server's threads. Several at once would delay the broker's event loop, which is in
the same process and would wait for each of them. The smallest schema that waits is next, so that a client with a small schema does
not wait for all large schemas of other clients.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final, Generic, TypeVar

from ottla.registry.comparison import Comparison, incompatible
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.formats import types
from ottla.registry.formats.parsed import Parsed
from ottla.registry.schema_text import NamedText, SchemaText

MAX_WAITING: Final = 48
"""Maximum number of schemas that wait for their turn. Fewer than the server's connections (`server.MAX_CONNECTIONS`), so that
requests without a schema still get a response."""
WAIT_S: Final = 3.0
"""Maximum time, in seconds, that a schema waits for its turn. A registration waits up to three times: it parses, compares and
prepares its schema. ottla's clients wait `http_client.TIMEOUT_S` for a response, which must be longer than these three times, so
that they get the status 503 and no schema is compiled for a client that has left."""
MAX_CACHED_CHARACTERS: Final = 8 << 20
"""Maximum total size of the texts of cached schemas, in characters. A parsed schema needs 6 to 35 times the memory of its text."""

K = TypeVar("K")
V = TypeVar("V")


class CompilationQueue:
    """Lets one thread at a time through, the one with the smallest size first. At most ``max_waiting`` threads wait, each at most
    ``wait_s``."""

    def __init__(self, max_waiting: int = MAX_WAITING, wait_s: float = WAIT_S) -> None:
        self._max_waiting = max_waiting
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: list[tuple[int, int, threading.Event]] = []
        self._arrivals = count()

    @property
    def waiting(self) -> int:
        """The number of threads that wait."""
        return len(self._waiting)

    @contextmanager
    def turn(self, size: int) -> Iterator[None]:
        """Wait until no other thread is inside such a block. Raises `RegistryError`."""
        self._enter(size)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, size: int) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            if len(self._waiting) >= self._max_waiting:
                raise _busy(f"{self._max_waiting} schemas wait to be compiled, which is the maximum")
            entry = size, next(self._arrivals), threading.Event()
            heapq.heappush(self._waiting, entry)
        if entry[2].wait(self._wait_s):
            return
        with self._lock:
            # The thread before may have handed over its turn since the timeout.
            if entry[2].is_set():
                return
            self._waiting.remove(entry)
            heapq.heapify(self._waiting)
        raise _busy(f"the schema was not compiled within {self._wait_s:g} s, because other schemas were compiled")

    def _leave(self) -> None:
        with self._lock:
            if self._waiting:
                heapq.heappop(self._waiting)[2].set()
            else:
                self._is_taken = False


def _busy(reason: str) -> RegistryError:
    return RegistryError(RegistryCode.BUSY, f"{reason}; try again later")


class SizedCache(Generic[K, V]):
    """The newest results whose keys have a total size of at most ``max_size``. Threads may share a cache."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._lock = threading.Lock()
        self._found: dict[K, tuple[V, int]] = {}
        self._size = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._found.pop(key, None)
            if found is None:
                return None
            # The last key is the one that was used last.
            self._found[key] = found
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        if size > self._max_size:
            return
        with self._lock:
            self._size += size - self._found.pop(key, (None, 0))[1]
            self._found[key] = value, size
            while self._size > self._max_size:
                self._size -= self._found.pop(next(iter(self._found)))[1]


_ParsedKey = tuple[str, str, tuple[NamedText, ...]]


class Compilations:
    """The compilers of one registry. Threads share an instance."""

    def __init__(self, turns: CompilationQueue | None = None) -> None:
        self._turns = turns or CompilationQueue()
        self._parsed: SizedCache[_ParsedKey, Parsed] = SizedCache(MAX_CACHED_CHARACTERS)
        self._identities: SizedCache[SchemaText, bytes] = SizedCache(MAX_CACHED_CHARACTERS)

    def parse(self, kind: str, text: str, references: Sequence[NamedText]) -> Parsed:
        """Parse a schema. Raises `RegistryError`."""
        key = kind, text, tuple(references)
        found = self._parsed.get(key)
        if found is None:
            with self._turns.turn(_characters(*_texts(text, references))):
                found = self._parse_in_turn(*key)
        return found

    def _parse_in_turn(self, kind: str, text: str, references: Sequence[NamedText]) -> Parsed:
        key = kind, text, tuple(references)
        found = self._parsed.get(key)
        if found is None:
            found = types.parse(*key)
            self._parsed.put(key, found, _characters(*_texts(text, references)))
        return found

    def incompatible(self, comparison: Comparison) -> list[str]:
        """Compare a new schema with earlier ones, as `comparison.incompatible`. Raises `RegistryError`."""
        if not comparison.old:
            return []
        compared = [comparison.new, *(old for _, old in comparison.old)]
        texts = [text for one in compared for text in _texts(one.schema.text, one.references)]
        with self._turns.turn(_characters(*texts)):
            return incompatible(comparison, self._parse_in_turn)

    def prepare(self, schema: SchemaText) -> None:
        """Compute the digest of a schema, so that `identity` has it while the `SchemaLog`'s lock is held. Raises
        `RegistryError`."""
        if self._identities.get(schema) is None:
            with self._turns.turn(_size(schema)):
                self.identity(schema)

    def identity(self, schema: SchemaText) -> bytes:
        """Return the digest of a schema, see `types.identity`."""
        found = self._identities.get(schema)
        if found is None:
            found = types.identity(schema)
            self._identities.put(schema, found, _size(schema))
        return found


def _texts(text: str, references: Sequence[NamedText]) -> list[str]:
    return [text, *(reference.text for reference in references)]


def _size(schema: SchemaText) -> int:
    return _characters(schema.text, schema.metadata or "", schema.rules or "")


def _characters(*texts: str) -> int:
    """Return the size of texts for the order of waiting schemas and for the caches, in characters."""
    return sum(map(len, texts))
