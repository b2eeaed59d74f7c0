"""How the runtime reports a failed append, replay or effect to the caller of a command."""

from __future__ import annotations

import pytest

from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.partitions import Partition
from ottla.broker.partitions.runtime import Runtime
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.support.world import simulated_env


class Wake(Effect, frozen=True):
    """An effect for which no handler is registered."""


def test_error_in_a_coordinator_action_after_the_append_does_not_count_as_refused_append() -> None:
    env = simulated_env()
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig())
    replayed: list[LogRecord] = []

    def refuse(_: Effect) -> None:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)

    partition = Partition(env, log, Barrier(None), DiskHealth(env, "/"), 0)
    runtime = Runtime(env, partition, lambda record, *_: replayed.append(record), Stepping(env, pytest.fail), refuse)
    with pytest.raises(RuntimeError, match="Wake"):
        runtime.execute(Result(None, records=[LogRecord(b"k", b"v")], effects=[Wake()]))
    assert len(replayed) == log.log_end_offset == 1
