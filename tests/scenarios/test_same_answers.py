"""The same questions to ottla and to Apache Kafka: the answers are compared field by field.

Left out are texts for people, times, and what is a broker's own: ids, addresses, ports.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ottla import Broker
from protocol.errors import Code
from protocol.messages import APIS
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.primitives import NO_UUID
from protocol.records import build_batch
from tests.raw import Closed, RawClient, api_key, create, retry
from tests.scenarios.questions import QUESTIONS, Setting
from tools.kafka import QUICK_JVM, ApacheKafka, Unavailable

PREFIX = "same"
OWN = {"throttle_time_ms", "error_message", "host", "port", "cluster_id", "node_id", "controller_id", "leader_id"}
OWN |= {"replica_nodes", "isr_nodes", "configs", "producer_id", "rack", "broker_id", "transaction_start_time_ms"}

DIFFERENCES = {
    "CreateTopicsRequest, names that collide": "Apache Kafka looks for collisions among the topics that are there already only",
}
"""Questions that ottla answers otherwise at every version, and why."""
SETTINGS = {"auto.create.topics.enable": "false"}
LOADING = Code.COORDINATOR_LOAD_IN_PROGRESS
FIRST_TIME = 1_000_000_000_000

pytestmark = [pytest.mark.wire, pytest.mark.slow, pytest.mark.java]


def plain(answer: Any, names: dict[bytes, str]) -> Any:
    """An answer as dictionaries and lists, without what is a broker's own."""
    if isinstance(answer, msgspec.Struct):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return {name: plain(value, names) for name, value in fields.items() if name not in OWN}
    if isinstance(answer, list):
        return [plain(one, names) for one in answer]
    if isinstance(answer, bytes) and len(answer) == len(NO_UUID):
        return "no id" if answer == NO_UUID else names.get(answer, "an id")
    return "a time" if isinstance(answer, int) and FIRST_TIME < answer < 2 * FIRST_TIME else answer


class Witness:
    """A broker with the topics that the questions are about."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)
        for version in range(7):
            for stem in ("gone-one", "gone-two", "grown", "cut"):
                create(self.client, f"{PREFIX}-{stem}-{version}")
            self._fill(f"{PREFIX}-cut-{version}")
        for stem, count in (("one", 1), ("two", 2), ("full", 1)):
            create(self.client, f"{PREFIX}-{stem}", count)
        create(self.client, f"{PREFIX}-compact", cleanup_policy="compact")
        self._fill(f"{PREFIX}-full")
        for key_type in (0, 1):
            self._found(key_type)
        topics = self.client.call(MetadataRequest(None, False)).topics
        self.ids = {topic.name: topic.topic_id for topic in topics}
        node_id = self.client.call(MetadataRequest([], False)).brokers[0].node_id
        self.setting = Setting(PREFIX, node_id, self.ids, self._init)

    def _fill(self, topic: str) -> None:
        batch = bytes(build_batch([(b"k", b"v")] * 3, time.time_ns() // 1_000_000))
        request = ProduceRequest(None, -1, 5_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])])
        assert self.client.call(request, 9).responses[0].partition_responses[0].error_code == 0

    def _found(self, key_type: int) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        retry(lambda: self.client.call(request), lambda answer: answer.coordinators[0].error_code == 0)
        # The coordinator is named before it has loaded, with Apache Kafka.
        self._init(f"{PREFIX}-first")

    def _init(self, transactional_id: str) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id, 60_000)
        answer = retry(lambda: self.client.call(request), lambda answer: answer.error_code == 0)
        return answer.producer_id, answer.producer_epoch

    def ask(self, request: Any, version: int) -> Any:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        try:
            # Apache Kafka says 14 until it has its next thousand producer ids.
            loaded = retry(lambda: self.client.call(request, version), lambda answer: getattr(answer, "error_code", 0) != LOADING)
            return plain(loaded, names)
        except Closed:
            self.client = RawClient(self.bootstrap)
            return "the connection is closed"


@pytest.fixture(scope="module")
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Witness, Witness]]:
    """ottla and Apache Kafka, each with the same topics. Both keep the first leader epoch: they are not restarted."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS, jvm=QUICK_JVM)
    ottla = Broker(data_dir=tmp_path_factory.mktemp("ottla"), settings=SETTINGS)
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        with ottla.start():
            yield Witness(ottla.bootstrap), Witness(kafka.bootstrap)
    finally:
        kafka.stop()


@pytest.mark.parametrize("api", QUESTIONS)
def test_both_answer_the_same(api: str, witnesses: tuple[Witness, Witness]) -> None:
    ottla, kafka = witnesses
    entries = {entry.name: entry for entry in APIS.values()}
    unlike = []
    for version in range(entries[api].min_version, entries[api].max_version + 1):
        both = zip(QUESTIONS[api](ottla.setting, version), QUESTIONS[api](kafka.setting, version), strict=True)
        for (label, of_ottla), (_, of_kafka) in both:
            at = min(version, APIS[api_key(of_ottla)].max_version)
            answers = ottla.ask(of_ottla, at), kafka.ask(of_kafka, at)
            question = f"{type(of_ottla).__name__}, {label}"
            if (answers[0] == answers[1]) == (question in DIFFERENCES):
                unlike.append(f"version {at} of {question}:\n  ottla {answers[0]}\n  kafka {answers[1]}")
    assert not unlike, "\n".join(unlike)
