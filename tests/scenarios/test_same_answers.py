"""The same questions to ottla and to Apache Kafka: the answers are compared field by field.

Left out are texts for people, times, and what is a broker's own: ids, addresses, ports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ottla import Broker
from ottla.protocol.errors import Code, DecodeError
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import build_batch
from ottla.simulation.client import Closed, api_key
from tests.scenarios.migration_questions import SCRIPTS, Script
from tests.scenarios.questions import QUESTIONS
from tests.scenarios.setting import NOW_MS, Setting
from tests.support.raw_client import RawClient, create, retry
from tools.kafka import ORACLE_VERSION, QUICK_JVM, ApacheKafka, Unavailable

PREFIX = "same"
OWN = {"throttle_time_ms", "error_message", "host", "port", "cluster_id", "node_id", "controller_id", "leader_id"}
OWN |= {"replica_nodes", "isr_nodes", "configs", "producer_id", "rack", "broker_id", "transaction_start_time_ms", "log_dir"}
OWN |= {"usable_bytes", "total_bytes", "batch_index_error_message", "status_detail"}
UNORDERED = {
    "topic_results",
    "results_by_partition",
    "results_by_topic_v3_and_below",
    "groups",
    "config_resources",
    "transaction_states",
    "replica_election_results",
    "results",
    "entries",
    "members",
    "entity",
    "values",
    "credential_infos",
}
"""Lists that Apache Kafka answers in the order of a hash map, or of its shards."""

UNKNOWN_ISOLATION = "Apache Kafka fails on it with UNKNOWN_SERVER_ERROR, ottla refuses it with INVALID_REQUEST"
NOBODY_TO_ADD = (
    "Apache Kafka tries to reach the node, and gives up after a while; ottla has no quorum that could grow, and says so at once"
)
DIFFERENCES = {
    "CreateTopicsRequest, names that collide": "Apache Kafka looks for collisions among the topics that are there already only",
    "FetchRequest, isolation 2": UNKNOWN_ISOLATION,
    "FetchRequest, isolation -1": UNKNOWN_ISOLATION,
    "ListOffsetsRequest, isolation 2": UNKNOWN_ISOLATION,
    "FetchRequest, bytes below 0": "Apache Kafka fails on it with UNKNOWN_SERVER_ERROR, ottla takes it for 0",
    "DescribeTopicPartitionsRequest, the topic ''": "Apache Kafka fails on it, and with it on every other topic of the request",
    "AddRaftVoterRequest, a node that nobody reaches": NOBODY_TO_ADD,
    "AlterUserScramCredentialsRequest, no password": "Apache Kafka fails on it with UNKNOWN_SERVER_ERROR",
    "StreamsGroupHeartbeatRequest, a topology with a negative count": "Apache Kafka fails on it with UNKNOWN_SERVER_ERROR",
    "AlterConfigsRequest, all brokers, set": "with eligible leader replicas Apache Kafka has a min.insync.replicas to lose by it",
}
"""Questions that ottla answers otherwise at every version, and why.

Some are not asked, because Apache Kafka never answers them, where ottla says INVALID_REQUEST: AlterConfigs of a resource that
is named twice, and IncrementalAlterConfigs of an operation that does not exist (answered with -1 at other times). Neither does
it answer AddPartitionsToTxn 4 without transactions, which ottla answers with none.
"""
if ORACLE_VERSION == "4.3.1":
    DIFFERENCES |= {
        f"AlterClientQuotasRequest, {key}=nan": "Apache Kafka 4.3.1 keeps a quota that is no number"
        for key in ("producer_byte_rate", "request_percentage")
    }
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.assignment.interval.ms": "0",
    # Of Apache Kafka: a target assignment is computed by the heartbeat that calls for it.
    "group.consumer.assignor.offload.enable": "false",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.min.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.assignment.interval.ms": "0",
    "group.share.assignor.offload.enable": "false",
    # ottla's own is shorter.
    "group.share.min.record.lock.duration.ms": "15000",
}
LOADING = Code.COORDINATOR_LOAD_IN_PROGRESS
KINDS = {"StreamsGroupHeartbeat": "StreamsGroup", "ShareGroupHeartbeat": "Share", "ShareFetch": "Share"}
"""Of an API's questions: the word in the names of those that are asked at its version. All others are asked at their newest."""
FIRST_TIME = 1_000_000_000_000
MEMBER_ID = re.compile("-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""What a broker adds to a client's name."""

UNANSWERED = {Closed: "the connection is closed", TimeoutError: "no answer", DecodeError: "an answer that is none"}

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]


def plain(answer: Any, names: dict[bytes, str]) -> Any:
    """An answer as dictionaries and lists, without what is a broker's own."""
    if isinstance(answer, msgspec.Struct):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        kept_fields = {name: plain(value, names) for name, value in fields.items() if name not in OWN}
        for name in UNORDERED & kept_fields.keys():
            (kept_fields[name] or []).sort(key=repr)
        if kept_fields.get("session_id"):
            kept_fields["session_id"] = "a session"
        return kept_fields
    if isinstance(answer, list):
        return [plain(one, names) for one in answer]
    if isinstance(answer, bytes) and len(answer) == len(NO_UUID):
        return "no id" if answer == NO_UUID else names.get(answer, "an id")
    if isinstance(answer, str):
        return MEMBER_ID.sub("-an id", answer)
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
        create(self.client, f"{PREFIX}-small", max_message_bytes="1000")
        create(self.client, f"{PREFIX}-recent", message_timestamp_before_max_ms="3600000")
        self._fill(f"{PREFIX}-full")
        for key_type in (0, 1):
            self._find_coordinator(key_type)
        topics = self.client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False)).topics
        self.ids = {topic.name: topic.topic_id for topic in topics}
        node_id = self.client.call(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers[0].node_id
        offered = self.client.call(ApiVersionsRequest(), 0).api_keys
        self.offered = {APIS[entry.api_key].name: entry.max_version for entry in offered if entry.api_key in APIS}
        self.setting = Setting(prefix=PREFIX, node_id=node_id, ids=self.ids, init=self._init, call=self._settled)

    def _settled(self, request: Any, version: int) -> Any:
        """The answer of a coordinator that has loaded."""
        return retry(lambda: self.client.call(request, version), lambda answer: getattr(answer, "error_code", 0) != LOADING)

    def _fill(self, topic: str) -> None:
        batch = bytes(build_batch([(b"k", b"v")] * 3, NOW_MS))
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(topic, partition_data=[PartitionProduceData(index=0, records=batch)])],
        )
        assert self.client.call(request, 9).responses[0].partition_responses[0].error_code == 0

    def _find_coordinator(self, key_type: int) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        retry(lambda: self.client.call(request), lambda answer: answer.coordinators[0].error_code == 0)
        # The coordinator is named before it has loaded, with Apache Kafka.
        self._init(f"{PREFIX}-first")

    def _init(self, transactional_id: str) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = retry(lambda: self.client.call(request), lambda answer: answer.error_code == 0)
        return answer.producer_id, answer.producer_epoch

    def ask(self, request: Any, version: int) -> Any:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        try:
            # Apache Kafka says 14 until it has its next thousand producer ids.
            loaded = retry(lambda: self.client.call(request, version), lambda answer: getattr(answer, "error_code", 0) != LOADING)
            return plain(loaded, names)
        except (Closed, TimeoutError, DecodeError) as error:
            self.client = RawClient(self.bootstrap)
            return UNANSWERED[type(error)]


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
    for version in range(entries[api].min_version, min(entries[api].max_version, kafka.offered[entries[api].name]) + 1):
        both = zip(QUESTIONS[api](ottla.setting, version), QUESTIONS[api](kafka.setting, version), strict=True)
        for (label, of_ottla), (_, of_kafka) in both:
            entry = APIS[api_key(of_ottla)]
            is_of_another_kind = KINDS.get(api, "") not in entry.name
            at = min(entry.max_version if is_of_another_kind else version, entry.max_version, kafka.offered[entry.name])
            answers = ottla.ask(of_ottla, at), kafka.ask(of_kafka, at)
            question = f"{type(of_ottla).__name__}, {label}"
            if (answers[0] == answers[1]) == (question in DIFFERENCES):
                unlike.append(f"version {at} of {question}:\n  ottla {answers[0]}\n  kafka {answers[1]}")
    assert not unlike, "\n".join(unlike)


class Reader:
    """One broker taken through a script. Ids that it has given to members are shown as numbers."""

    def __init__(self, witness: Witness, script: Script) -> None:
        self._witness = witness
        self._script = script
        self._ids: dict[str, str] = {}
        self._last: Any = None

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        names = {topic_id: name for name, topic_id in self._witness.ids.items()}
        try:
            while True:
                label, request, version = self._script.send(self._last)
                self._last = self._witness.client.call(request, version)
                given = getattr(self._last, "member_id", "")
                if given and isinstance(request, JoinGroupRequest):
                    self._ids.setdefault(given, f"member {len(self._ids)}")
                yield label, self._numbered(plain(self._last, names))
        except StopIteration:
            return

    def _numbered(self, shown: Any) -> Any:
        if isinstance(shown, dict):
            return {key: self._numbered(value) for key, value in shown.items()}
        if isinstance(shown, list):
            return sorted(map(self._numbered, shown), key=repr)
        shown = "" if shown == "-an id" else shown
        return next((number for given, number in self._ids.items() if shown == plain(given, {})), shown)


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_change_groups_over_alike(script: str, witnesses: tuple[Witness, Witness]) -> None:
    ottla, kafka = (Reader(witness, SCRIPTS[script](witness.setting)) for witness in witnesses)
    unlike = []
    for (label, of_ottla), (_, of_kafka) in zip(ottla, kafka, strict=True):
        if of_ottla != of_kafka:
            unlike.append(f"{label}:\n  ottla {of_ottla}\n  kafka {of_kafka}")
    assert not unlike, "\n".join(unlike)
