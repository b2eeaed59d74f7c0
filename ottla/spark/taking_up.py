"""How a stream goes on whose checkpoint is lost: from the offsets that were committed with what it has written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.spark.connecting import Connecting
from ottla.spark.errors import PipelineError
from ottla.spark.mark_log import MarkLog
from ottla.spark.marks import NO_BATCH, group_of, newer, read_ends, read_mark
from ottla.spark.topics import existing
from ottla.spark.wire import ClusterClient

_EARLIEST: Final = -2


def committed_offsets(cluster: str | Mapping[str, Any], transactional_id: str, mark_log_topic: str | None = None) -> str:
    """Where the last committed batch of a stream has ended, as JSON that Spark's source takes as ``startingOffsets``.

    ``cluster`` is ``host:port,...``, or the sink's ``kafka.*`` options; ``mark_log_topic`` its ``mark.log.topic``. A stream with a
    new checkpoint that begins there goes on under the same ``transactional.id``, without a gap and without anything twice; what
    Spark has kept between batches is lost. Partitions that were added since are read from their beginning.

    Raises `PipelineError` where nothing was committed, or not by a stream that reads topics of Kafka's, and, with
    ``mark_log_topic``, where one of those was made anew since.
    """
    connecting = Connecting(cluster) if isinstance(cluster, str) else Connecting.parse(cluster)
    group = group_of(transactional_id)
    with contextlib.closing(ClusterClient(connecting)) as client:
        in_group = read_mark(client, group)
        log = None if mark_log_topic is None else MarkLog(client, mark_log_topic)
        kept = None if log is None else log.read(transactional_id)
        mark = newer((in_group, None if kept is None else kept.mark))
        if mark is None or mark.batch == NO_BATCH:
            raise PipelineError(f"nothing was committed as {transactional_id!r}: the group {group!r} has no offsets")
        if log is not None and kept is not None and kept.mark == mark:
            log.check_topics(kept, kept.ids)
        if mark.input.startswith("{"):
            # Beside the topic stands the id of one that was read out of segment files.
            ends = {topic: offsets for topic, offsets in json.loads(mark.input).items() if not topic.startswith("#")}
        else:
            ends = read_ends(client, group) if kept is None or mark is in_group else kept.ends
            if mark.at and sum(map(len, ends.values())) > mark.offsets >= 0:
                ends.pop(mark.at, None)
        if not ends or not all(isinstance(partitions, dict) for partitions in ends.values()):
            raise PipelineError(f"the stream that wrote as {transactional_id!r} reads no single source of Kafka's")
        for topic, partitions in ends.items():
            # Of an input that lies on another cluster, nothing is known here of partitions that were added.
            for index in range(existing(client, (topic,)).get(topic, 0)):
                partitions.setdefault(str(index), _EARLIEST)
    return json.dumps(ends, sort_keys=True)
