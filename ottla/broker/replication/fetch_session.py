"""The follower's state of a fetch session (KIP-227, FetchSessionHandler): chooses the partitions that a request names."""

from __future__ import annotations

from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

TopicIdPartition = tuple[bytes, int]

NO_SESSION = 0
INITIAL_EPOCH = 0


class FetchSession:
    """One session with one leader. Without a session each request names every partition."""

    __slots__ = ("_is_whole", "_sent", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        # The partitions in the leader's session, each with the fields of the last request that named it.
        self._sent: dict[TopicIdPartition, FetchPartition] = {}
        self._is_whole = True

    def name(self, wanted: dict[TopicIdPartition, FetchPartition]) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return the partitions that the next request names, and the partitions that it removes from the session."""
        self._is_whole = self.epoch == INITIAL_EPOCH
        named, forgotten = wanted, dict[TopicIdPartition, FetchPartition]()
        if not self._is_whole:
            sent = self._sent
            named = {key: partition for key, partition in wanted.items() if sent.get(key) != partition}
            forgotten = {key: partition for key, partition in sent.items() if key not in wanted}
        self._sent = wanted
        topics: dict[bytes, list[FetchPartition]] = {}
        for (topic_id, _), partition in named.items():
            topics.setdefault(topic_id, []).append(partition)
        left: dict[bytes, list[int]] = {}
        for topic_id, index in forgotten:
            left.setdefault(topic_id, []).append(index)
        return (
            [FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
            [ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in left.items()],
        )

    def answered(self, response: FetchResponse) -> bool:
        """Process a response. Returns False if the leader rejects the session, so that the next request begins a new session."""
        if response.error_code != Code.NONE:
            if response.error_code == Code.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self.epoch = INITIAL_EPOCH
            return False
        if self._is_whole:
            # A leader without room for sessions creates no session: then every request names all partitions.
            self.session_id = response.session_id
            self.epoch = INITIAL_EPOCH if response.session_id == NO_SESSION else INITIAL_EPOCH + 1
        else:
            self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1
        return True

    def lost(self) -> None:
        """Note that a response was lost or not processed. The next request names all partitions, and closes an existing session."""
        self.epoch = INITIAL_EPOCH
