"""DescribeLogDirs, versions 1 to 5 (KIP-113): shows the sizes of partitions in the one log directory.

- 3: the whole response has an error code.
- 4 (KIP-827): the size of the volume and its free space, in bytes.
- 5 (KIP-1066): whether the directory is cordoned; with ottla it never is.

The response has no field for an offline log, a damaged batch or a stray directory. So ``ottla health`` and the console get a
further result for each of these problems, with a line of text in ``log_dir``; ``ottla cluster`` gets such results only for stray
directories. Other clients get none, because they would take the text for a path.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.metadata.strays import Strays
from ottla.broker.partitions.partitions import Partitions
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.storage.log_dir import LogDirectory

UNKNOWN_VOLUME_BYTES = -1
HEALTH_CLIENT_ID = "ottla-health"
"""The client id with which ``ottla health`` sends DescribeLogDirs."""
CONSOLE_CLIENT_ID = "ottla-console"
"""The client id of a console that shows the brokers of another process."""
CLUSTER_CLIENT_ID = "ottla-cli"
"""The client id of ottla's commands, such as ``ottla cluster``."""


class Ports(Protocol):
    partitions: Partitions
    directory: LogDirectory
    strays: Strays

    @property
    def is_sound(self) -> bool: ...

    @property
    def problems(self) -> list[str]: ...


async def handle(ports: Ports, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(t.topic, index) for t in request.topics for index in t.partitions}
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in ports.partitions:
        log = partition.log
        if wanted is None or (log.topic, log.partition) in wanted:
            topics.setdefault(log.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=log.partition, partition_size=log.size_bytes, offset_lag=0, is_future_key=False
                )
            )
    is_sound = ports.is_sound
    try:
        total, usable = ports.directory.fs.space(ports.directory.path)
    except OSError:
        is_sound = False
        total = usable = UNKNOWN_VOLUME_BYTES
    topic_sizes = [DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    problems = ports.problems if context.client_id in (HEALTH_CLIENT_ID, CONSOLE_CLIENT_ID) else []
    reads_strays = context.client_id in (HEALTH_CLIENT_ID, CONSOLE_CLIENT_ID, CLUSTER_CLIENT_ID)
    strays = ports.strays.summary().lines if reads_strays else []
    # Kafka returns KAFKA_STORAGE_ERROR for an offline directory, ottla if writes to the directory fail or a log is offline.
    code = Code.NONE if is_sound else Code.KAFKA_STORAGE_ERROR
    return DescribeLogDirsResponse(
        throttle_time_ms=0,
        error_code=0,
        results=[
            DescribeLogDirsResult(
                error_code=code, log_dir=ports.directory.absolute_path, topics=topic_sizes, total_bytes=total, usable_bytes=usable
            ),
            *(DescribeLogDirsResult(error_code=Code.KAFKA_STORAGE_ERROR, log_dir=problem) for problem in problems),
            *(DescribeLogDirsResult(error_code=Code.NONE, log_dir=stray) for stray in strays),
        ],
    )


def failed(request: DescribeLogDirsRequest, version: int, code: Code) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=code)


API = Declaration(
    key=35,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE CLUSTER"),
    is_bulky=True,
)
