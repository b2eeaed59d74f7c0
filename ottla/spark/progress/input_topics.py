"""Detects that an input topic was deleted and created again, by its topic id (KIP-516).

Spark's checkpoint has only names and offsets, so Spark would continue at the old topic's offsets and skip records of the new topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster import BrokerConnections
from ottla.spark.cluster.topics import topic_ids
from ottla.spark.errors import PipelineError


class InputTopics:
    """The input topics of one stream, if they are on the cluster to which the stream writes. Topics of brokers before 2.8 have no
    ids, so they are not compared."""

    def __init__(self, cluster: BrokerConnections, ids: Mapping[str, str] = {}) -> None:
        self._cluster = cluster
        self.ids: dict[str, str] = dict(ids)
        """Topic ids, in hexadecimal, with which `check` compares the current ids."""

    def know(self, ids: Mapping[str, str]) -> None:
        """Add the topic ids of a progress record. Ids that this run has read from the cluster take precedence."""
        self.ids = {**ids, **self.ids}

    def check(self, topics: Iterable[str]) -> None:
        """Raise `PipelineError` if a topic has another id than when the stream first read it.

        Forgets topics that the stream no longer reads, because such topics may be deleted and created again.
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
