"""A controller that restarts on any state of its disk after a crash still has all topics and batches that its responses named."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.simulation.client import newest
from ottla.simulation.controller import SimulatedController
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem
from tests.broker.controller.world import Broker
from tests.support.logs import stored

pytestmark = pytest.mark.heavy

BEFORE_SYNC, AFTER_ANSWER = "before the sync", "after the answer"


@dataclass(slots=True)
class Said:
    """A topic, or batches of the metadata log, that a response contained after the first ``count`` writes of the trace."""

    count: int
    topic: str = ""
    topic_id: bytes = b""
    batches: list[bytes] = field(default_factory=list)


class Story:
    """A controller that creates topics and is killed and restarted. Each response is recorded with the trace length."""

    def __init__(self, durability: str, features: dict[str, int] | None = None) -> None:
        self.fs = TracingFilesystem()
        self.settings = {"ottla.durability": durability}
        self.controller = SimulatedController(self.settings, features, fs=self.fs).start()
        self.cluster_id = self.controller.server.cluster_id
        self.said: list[Said] = []
        self.broker = Broker(self.controller, 1).join()
        self.fetched: list[bytes] = []
        self._note_log()

    @property
    def count(self) -> int:
        return len(self.fs.trace)

    def _note_log(self) -> None:
        """Let a broker fetch the metadata log, and record the batches that it received."""
        self.broker.client = self.controller.connect("broker-1")
        self.broker.catch_up()
        log = self.controller.server.controller.log.log
        self.fetched = [raw for header, raw in stored(log) if header.next_offset <= self.broker.end_offset]
        self.said.append(Said(self.count, batches=list(self.fetched)))

    def create(self, name: str, crash: str = "") -> None:
        """Create a topic. If ``crash`` is set, kill the controller before the sync or after the response, and restart it."""
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)])
        client = self.controller.connect()
        if crash == BEFORE_SYNC:
            # The process is killed before the thread that syncs runs.
            self.controller.env.run_aside = lambda work, done: None  # type: ignore[method-assign]
            client.send(request, newest(request))
            is_told = client._transport.next_frame() is not None
            assert is_told is (self.settings["ottla.durability"] == "process")
        else:
            (topic,) = client.call(request).topics
            assert topic.error_code == 0
            self.said.append(Said(self.count, topic=name, topic_id=topic.topic_id))
            self._note_log()
        if crash:
            self.controller.kill()
            self.fs.real.crashed()
            self.controller.start()
            self._note_log()
            known = self.controller.server.controller.state.topics.get(name)
            if known is not None and self.broker.state.topics.get(name) is not None:
                self.said.append(Said(self.count, topic=name, topic_id=known.topic_id))


def check(story: Story, count: int, image: dict[str, bytes]) -> None:
    """Start a controller on a crash state, and check all facts that were known before the crash."""
    begun = [said for said in story.said if said.count <= count]
    again = SimulatedController(story.settings, fs=MemoryFilesystem(image), seed=2).start()
    metadata = again.server.controller
    if begun:
        assert again.server.cluster_id == story.cluster_id
    kept = [raw for _, raw in stored(metadata.log.log)]
    for said in begun:
        if said.topic:
            assert said.topic in metadata.state.topics, f"topic {said.topic} is lost after {count} operations"
            assert metadata.state.topics[said.topic].topic_id == said.topic_id
        assert kept[: len(said.batches)] == said.batches, f"batches that a broker has fetched are lost after {count} operations"
    again.close()
    assert again.bugs == 0


@pytest.mark.parametrize(("durability", "metadata_version"), [("power", 33), ("power", 7), ("process", 33)])
def test_topic_creation_is_completed_or_undone_after_a_crash_at_any_point(durability: str, metadata_version: int) -> None:
    """With a metadata version in which controllers do not register yet, a start appends no record that would cause a sync."""
    story = Story(durability, {"metadata.version": metadata_version})
    story.create("first")
    story.create("second", BEFORE_SYNC)
    story.create("third", AFTER_ANSWER)
    disk, rng = TornDisk(), random.Random(1)
    checked = 0
    for count, op in enumerate(story.fs.trace, 1):
        disk.apply(op)
        for name, image in disk.states(rng):
            if durability == "power" or name == "kept":
                check(story, count, image)
                checked += 1
    story.controller.close()
    assert story.controller.bugs == 0
    assert {"first", "second", "third"} <= {said.topic for said in story.said}
    assert checked > 15


def test_metadata_log_is_not_synced_with_durability_process() -> None:
    story = Story("process")
    story.create("t")
    metadata = [op for op in story.fs.trace if "__cluster_metadata-0" in op.path]
    assert [op for op in metadata if op.kind == "append"]
    assert not [op for op in metadata if op.kind == "sync" and op.path.endswith(".log")]
