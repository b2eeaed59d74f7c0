"""Environments for tests of one component of a broker, without sockets and disk.

`ShardWorld` has a coordinator's state machine, and applies its results. `LoopWorld` has a component of the asyncio shell, and a
simulated clock.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from ottla.coordinator.result import AnswerMember, Effect, LogRecord, Result
from ottla.protocol.errors import KafkaError
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.filesystem import Filesystem

S = TypeVar("S")
T = TypeVar("T")


@dataclass(kw_only=True)
class ShardWorld(ABC, Generic[S]):
    """A coordinator's shard with its log.

    Results are applied as `Result` requires: append the records, replay them, then apply the effects.

    A subclass creates the shard and replays records. If the coordinator has effects or logged
    state, the subclass applies the effects and returns the logged state.
    """

    changes_without_records: ClassVar[bool] = False
    """Whether a command that logs no record may change the state directly. Such a command runs only once in `run_retried`."""

    now_ms: int = 1_000_000
    log: list[LogRecord] = field(default_factory=list)
    producer_ids: dict[int, int] = field(default_factory=dict)
    """Producer ids of transactional records, by the record's offset."""
    last_id: int = 0
    failed_appends: int = 0

    def __post_init__(self) -> None:
        self.shard = self.new_shard()

    @abstractmethod
    def new_shard(self) -> S: ...

    @abstractmethod
    def replay(self, shard: S, record: LogRecord, offset: int) -> None: ...

    def apply(self, effect: Effect) -> None:
        raise AssertionError(f"{type(self).__name__} applies no effects, but its shard returned {effect!r}")

    def logged(self, shard: S) -> Any:
        """Return the part of the state that a shard restores from its log."""
        raise AssertionError(f"{type(self).__name__} does not say which part of its state is logged")

    def snapshot(self) -> Any:
        """Return a copy of all state that only the replay of records may change."""
        raise AssertionError(f"{type(self).__name__} cannot copy its state")

    def check(self) -> None:
        """Check invariants. Called after each applied result."""

    def new_id(self) -> str:
        self.last_id += 1
        return f"id-{self.last_id}"

    def run(self, result: Result[T], producer_id: int = -1) -> T:
        """Append and replay the result's records, apply its effects, and return its response."""
        for record in result.records:
            if producer_id >= 0:
                self.producer_ids[len(self.log)] = producer_id
            # Drop the object from which the record was encoded, so that a reload reads the bytes, as after a restart.
            self.log.append(LogRecord(record.key, record.value))
            self.replay(self.shard, record, len(self.log) - 1)
        for effect in sorted(result.effects, key=lambda effect: isinstance(effect, AnswerMember)):
            if isinstance(effect, AnswerMember):
                effect.waiter(effect.answer)
            else:
                self.apply(effect)
        self.check()
        return result.response

    def run_retried(self, command: Callable[[], Result[T]], producer_id: int = -1) -> T:
        """Run a command twice, as a retry after a failed append.

        The first run must not change the state; the second result is applied.

        Raises `KafkaError` if the command does.
        """
        before = self.snapshot()
        try:
            result = command()
        except KafkaError:
            assert self.snapshot() == before, "a refused command has changed the state"
            raise
        if result.records or not self.changes_without_records:
            assert self.snapshot() == before, "a command has changed the state without its records"
            self.failed_appends += bool(result.records)
            result = command()
        return self.run(result, producer_id)

    def reloaded(self) -> S:
        """Return a new shard that has replayed the log."""
        shard = self.new_shard()
        for offset, record in enumerate(self.log):
            self.replay(shard, record, offset)
        return shard

    def check_reloaded(self) -> S:
        """Return a shard loaded from the log, and assert that its logged state equals that of the live shard."""
        again = self.reloaded()
        assert self.logged(again) == self.logged(self.shard)
        return again

    def reload(self) -> None:
        """Restart the coordinator: replace the live shard with one loaded from the log, which must have the same logged state."""
        self.shard = self.check_reloaded()


def simulated_env(fs: Filesystem | None = None) -> SimulatedEnv:
    return SimulatedEnv(MemoryFilesystem() if fs is None else fs, random.Random(1), START_MS)


class LoopWorld:
    """A component of a broker in a simulated environment whose clock the test advances. ``bugs`` counts unexpected exceptions."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        # The type is Any because components expect `Env` or narrower protocols, which a simulated environment implements.
        self.env: Any = simulated_env(self.fs)
        self.bugs = 0

    def note_bug(self) -> None:
        self.bugs += 1

    def settle(self) -> None:
        """Run all calls that are due at the current time."""
        self.env.settle()

    def advance(self, by_ms: float) -> None:
        self.env.settle()
        self.env.advance(by_ms)
