"""The topics that a stream reads, by the ids that they had when the stream first read them (KIP-516).

Spark's checkpoint has only names and offsets. If a topic is deleted and created again, Spark continues at the offsets of the old
topic and skips the records of the new one before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster import BrokerConnections
from ottla.spark.cluster.topics import topic_ids
from ottla.spark.errors import PipelineError


class InputTopics:
    """The topics of one stream, on the cluster that it writes to. Brokers before 2.8 have no ids, so nothing is compared."""

    def __init__(self, cluster: BrokerConnections, ids: Mapping[str, str] = {}) -> None:
        self._cluster = cluster
        self.ids: dict[str, str] = dict(ids)
        """In hexadecimal, by topic of the last `check`."""

    def know(self, ids: Mapping[str, str]) -> None:
        """Add the ids of a progress record. Ids that this run has seen itself take precedence."""
        self.ids = {**ids, **self.ids}

    def check(self, topics: Iterable[str]) -> None:
        """Raise `PipelineError` if a topic has another id than when the stream first read it.

        Forgets the ids of topics that the stream no longer reads, which may be created again.
        """
        names = sorted(topics)
        now = topic_ids(self._cluster, names) if names else {}
        known = {name: self.ids[name] for name in names if name in self.ids}
        recreated = [name for name in names if name in now and known.get(name, now[name]) != now[name]]
        if recreated:
            which = ", ".join(f"{name!r} (topic id {now[name]}, before {known[name]})" for name in recreated)
            raise PipelineError(
                f"a topic was deleted and created again since this stream began to read it: {which}. Spark continues at the"
                " offsets of the old topic, so the first records of the new one would be lost. Start with a new checkpoint and a"
                " new transactional.id to read the new topic from its beginning, or leave that topic out"
            )
        self.ids = {**now, **known}
