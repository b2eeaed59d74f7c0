"""Finds the offsets from which a stream continues after its checkpoint was lost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.security.client_config import Connecting
from ottla.spark.cluster.client import cluster_client
from ottla.spark.cluster.topics import existing
from ottla.spark.errors import PipelineError
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import NO_BATCH, group_of, newer, read_ends, read_mark
from ottla.spark.progress.progress_topic import DEFAULT_TOPIC, ProgressTopic

_EARLIEST: Final = -2


def committed_offsets(cluster: str | Mapping[str, Any], transactional_id: str, progress_topic: str | None = DEFAULT_TOPIC) -> str:
    """Return the end of a stream's last committed batch, as JSON for ``startingOffsets`` of Spark's Kafka source.

    ``cluster`` is ``host:port,...`` or the sink's ``kafka.*`` options. ``progress_topic`` is the sink's ``progress.topic``, or None
    if the sink has no progress topic. With a new checkpoint that begins at these offsets, the stream continues under the same
    ``transactional.id`` without gaps or duplicates. Only the state that Spark kept between batches is lost. Partitions that were
    added after the last batch are read from their beginning.

    Raises `PipelineError` if nothing was committed, if the stream did not read Kafka topics, and if an input topic was deleted and
    created again.
    """
    connecting = Connecting(cluster) if isinstance(cluster, str) else Connecting.parse(cluster)
    group = group_of(transactional_id)
    with contextlib.closing(cluster_client(connecting)) as client:
        in_group = read_mark(client, group)
        has_log = progress_topic is not None and progress_topic in existing(client, (progress_topic,))
        kept = ProgressTopic(client, str(progress_topic), transactional_id).read() if has_log else None
        mark = newer((None if kept is None else kept.mark, in_group))
        if mark is None or mark.batch == NO_BATCH:
            raise PipelineError(
                f"nothing was committed as {transactional_id!r}: neither the group {group!r} nor the progress topic has a"
                " progress record"
            )
        if kept is not None and kept.mark == mark:
            InputTopics(client, kept.ids).check(kept.ids)
        if mark.input.startswith("{"):
            # The segment source (`segments.streaming`) stores the topic's id under a name that begins with "#".
            ends = {topic: offsets for topic, offsets in json.loads(mark.input).items() if not topic.startswith("#")}
        else:
            ends = read_ends(client, group) if kept is None or mark is in_group else kept.ends
            if mark.at and sum(map(len, ends.values())) > mark.offsets >= 0:
                ends.pop(mark.at, None)
        if not ends or not all(isinstance(partitions, dict) for partitions in ends.values()):
            raise PipelineError(f"the stream that used {transactional_id!r} does not read from a single Kafka source")
        for topic, partitions in ends.items():
            # Add the partitions that have no committed offset. If the input is on another cluster, its partitions are unknown.
            for index in range(existing(client, (topic,)).get(topic, 0)):
                partitions.setdefault(str(index), _EARLIEST)
    return json.dumps(ends, sort_keys=True)
