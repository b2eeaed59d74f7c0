"""Worlds: a small part of a broker with its log, its clock and its surroundings, which a test drives without sockets or a disk.

`ShardWorld` holds a coordinator's state machine and carries its results out. `LoopWorld` holds a part of the asyncio shell on a
simulated environment.
"""

from __future__ import annotations

import random
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
class ShardWorld(Generic[S]):
    """A coordinator's shard with its log. Results are carried out as `Result` says: append, replay, then effects.

    A subclass says how a shard is made and how it replays a record, and, where it has them, how effects are applied and which part
    of the state is in the log.
    """

    changes_without_records: ClassVar[bool] = False
    """Whether a command may change the state at once where it has nothing to log, so that it runs only once."""

    now_ms: int = 1_000_000
    log: list[LogRecord] = field(default_factory=list)
    producer_ids: dict[int, int] = field(default_factory=dict)
    """The producer ids of transactional records, by offset."""
    last_id: int = 0
    failed_appends: int = 0

    def __post_init__(self) -> None:
        self.shard = self.new_shard()

    # for subclasses

    def new_shard(self) -> S:
        raise NotImplementedError

    def replay(self, shard: S, record: LogRecord, offset: int) -> None:
        raise NotImplementedError

    def apply(self, effect: Effect) -> None:
        raise NotImplementedError

    def logged(self, shard: S) -> Any:
        """The part of the state that a shard reads back from its log."""
        raise NotImplementedError

    def snapshot(self) -> Any:
        """A copy of all state that a command must not change by itself."""
        raise NotImplementedError

    def check(self) -> None:
        """Called after each result that was carried out."""

    # for tests

    def new_id(self) -> str:
        self.last_id += 1
        return f"id-{self.last_id}"

    def run(self, result: Result[T], producer_id: int = -1) -> T:
        """Carry a result out. Returns its response."""
        for record in result.records:
            if producer_id >= 0:
                self.producer_ids[len(self.log)] = producer_id
            self.log.append(record)
            self.replay(self.shard, record, len(self.log) - 1)
        for effect in sorted(result.effects, key=lambda effect: isinstance(effect, AnswerMember)):
            if isinstance(effect, AnswerMember):
                effect.waiter(effect.answer)
            else:
                self.apply(effect)
        self.check()
        return result.response

    def run_retried(self, command: Callable[[], Result[T]], producer_id: int = -1) -> T:
        """Run a command twice. The first append fails, which must not have changed anything; the second result is carried out.

        Raises `KafkaError` where the command does.
        """
        before = self.snapshot()
        try:
            result = command()
        except KafkaError:
            assert self.snapshot() == before, "a refused command has changed the state"
            raise
        if result.records or not self.changes_without_records:
            assert self.snapshot() == before, "a command has changed the state by itself"
            self.failed_appends += bool(result.records)
            result = command()
        return self.run(result, producer_id)

    def reloaded(self) -> S:
        """A shard that has replayed the log."""
        shard = self.new_shard()
        for offset, record in enumerate(self.log):
            self.replay(shard, record, offset)
        return shard

    def check_reloaded(self) -> S:
        """Load the log and hold the result against the live shard."""
        again = self.reloaded()
        assert self.logged(again) == self.logged(self.shard)
        return again

    def reload(self) -> None:
        """Restart the coordinator: the live shard is replaced by one that was loaded from the log, and must agree with it."""
        self.shard = self.check_reloaded()


def simulated_env(fs: Filesystem | None = None) -> SimulatedEnv:
    return SimulatedEnv(MemoryFilesystem() if fs is None else fs, random.Random(1), START_MS)


class LoopWorld:
    """A part of a broker on a simulated environment, whose clock a test moves. ``bugs`` counts unexpected exceptions."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        # Any: a simulated environment stands in for `Env` and for narrower protocols of it.
        self.env: Any = simulated_env(self.fs)
        self.bugs = 0

    def note_bug(self) -> None:
        self.bugs += 1

    def settle(self) -> None:
        """Run all calls that are due."""
        self.env.settle()

    def advance(self, by_ms: float) -> None:
        self.env.settle()
        self.env.advance(by_ms)
