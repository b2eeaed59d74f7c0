"""The state of a case while it runs: its names, actors and connections, and the functions that send its requests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.streams_group_heartbeat import Subtopology
from ottla.protocol.primitives import NO_UUID
from ottla.security.acl.bindings import AclBinding
from ottla.simulation.client import Closed, api_key, newest
from tests.scenarios.brokers import Client, Target
from tests.support import oracle

NOT_READY = tuple(sorted(code.name for code in oracle.NOT_READY))
"""Responses of a broker that is not ready yet. The request is sent again, unless the command says ``once``."""
NO_SUCH_ID = b"\x11" * 16
"""A topic id that no topic has."""
TRANSACTION_TIMEOUT_MS = 600_000
"""Transaction timeout of producers by default. Restarts of Apache Kafka on a busy machine may take a minute."""
DEAD_LETTERS = "dlq."
"""Prefix of the dead-letter topics of share groups (``errors.deadletterqueue.topic.name.prefix``)."""


@dataclass(slots=True)
class Actor:
    """A producer or group member with the state that its client knows. ``sequences`` are the next sequences by partition."""

    name: str
    transactional_id: str | None
    pid: int
    epoch: int
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    written: int = 0
    member: str = ""
    generation: int = -1
    owned: dict[bytes, list[int]] = field(default_factory=dict)
    """Partitions assigned to a member of a consumer group, by topic id."""
    tasks: list[dict[str, list[int]]] = field(default_factory=lambda: [{}, {}, {}])
    """Tasks assigned to a member of a streams group: active, standby and warm-up tasks, by subtopology."""
    share_session: int = 0
    """Epoch of the member's next request in its share session."""

    def restore(self, before: Actor) -> None:
        self.pid, self.epoch, self.sequences = before.pid, before.epoch, before.sequences

    def adopt(self, pid: int, epoch: int) -> None:
        self.pid, self.epoch = pid, epoch
        self.sequences.clear()


@dataclass(slots=True)
class OwnConnection:
    """A connection with a client id of its own, and until when the last response has throttled it, by the broker's clock."""

    client: Client
    throttled_until_ms: float = 0.0


TIMEOUT_MS = 50_000
"""Timeout in ms in requests that have one. It exceeds what a busy machine needs, and is below the 60 s for which clients wait."""


@dataclass(slots=True)
class Ask:
    """A request, and a function that formats its response."""

    request: Any
    version: int | None
    show: Callable[[Any], str]
    user: str = ""
    """The user who sends the request (`World.call`)."""


@dataclass(slots=True)
class Words:
    """The words of a command: ``name = verb positional key=value {"field": 1}``."""

    name: str
    verb: str
    plain: list[str]
    options: dict[str, str]
    json: str = ""
    user: str = ""
    """The user who sends the request, as in ``by=alice``."""

    def has(self, flag: str) -> bool:
        return flag in self.plain

    def number(self, option: str, default: int) -> int:
        return int(self.options.get(option, default))

    def version(self, default: int | None = None) -> int | None:
        return int(self.options["v"]) if "v" in self.options else default


class World:
    """The state of one case. Names of topics, groups and ids get the case's prefix, except ``=name`` and ``__name``."""

    def __init__(self, broker: Target, target: str, prefix: str) -> None:
        self.broker = broker
        self.target = target
        self.prefix = prefix
        self.actors: dict[str, Actor] = {}
        self.later: dict[str, Ask] = {}
        self.parked: dict[str, tuple[Client, Ask, Any]] = {}
        self.held: set[str] = set()
        self.topologies: dict[str, list[Subtopology]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.nodes: dict[str, int] = {}
        """Broker ids by the names that the case gave to the brokers."""
        self._pids: dict[int, str] = {-1: "-"}
        self._clients: dict[str, Client] = {}
        """Connections by user; the name is empty for the client without a user, who may do everything."""
        self.acls: dict[str, list[AclBinding]] = {}
        """The ACLs of each user of the case."""
        self.users = 0
        """Number of users that the command ``under`` has created."""
        self.own: dict[str, OwnConnection] = {}
        """Connections with their own client ids, by the names that the case gave them."""
        self.answers: dict[str, Any] = {}
        """Responses to ``ask``, by the names that the case gave them."""
        self.usual: dict[str, dict[str, Any]] = {}
        """Default fields of requests, by API, as set by the command ``usually``."""
        self.not_offered = ""
        """The last request whose connection the broker closed because it does not support the version of the request."""

    def real(self, name: str) -> str:
        if name.startswith("="):
            return name[1:]
        if "*" in name:
            # ``x*32767`` is a name of 32,767 bytes.
            return self.prefix + "x" * (int(name.split("*")[1]) - len(self.prefix))
        if name.startswith(DEAD_LETTERS):
            # Only names with the prefix `DEAD_LETTERS` are valid dead-letter topics.
            return DEAD_LETTERS + self.prefix + name.removeprefix(DEAD_LETTERS)
        return name if name.startswith("__") or not name else self.prefix + name

    def shown(self, name: str) -> str:
        if name.startswith(DEAD_LETTERS):
            return DEAD_LETTERS + name.removeprefix(DEAD_LETTERS).removeprefix(self.prefix)
        return name.removeprefix(self.prefix)

    def pid(self, pid: int) -> str:
        return self._pids.setdefault(pid, f"p{len(self._pids)}")

    def spelled(self, topic_id: bytes) -> str:
        """Return the name that the case gave to a topic, by the topic's id."""
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "another")

    def partition(self, text: str) -> tuple[str, int]:
        topic, _, index = text.partition("/")
        return self.real(topic), int(index or 0)

    @property
    def clock(self) -> Target:
        """The clock by which `oracle` waits."""
        return self.broker

    @property
    def client(self) -> Client:
        return self.client_of("")

    def client_of(self, user: str) -> Client:
        """Return the connection of one of the case's users, or of the client without a user."""
        if user not in self._clients:
            self._clients[user] = self.broker.connect_as(self.real(user), "scenario") if user else self.connect()
        return self._clients[user]

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id, or an unused id for an unknown topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answered: bytes = self.call(request).topics[0].topic_id
        return NO_SUCH_ID if answered == NO_UUID else answered

    def connect(self) -> Client:
        return self.broker.connect("scenario")

    def forget_connection(self, user: str = "") -> None:
        client = self._clients.pop(user, None)
        if client is not None:
            client.close()

    def call(self, request: Any, version: int | None = None, *, user: str = "") -> Any:
        """Send a request and return its response. Raises `Closed`; the next call opens a new connection."""
        try:
            return self.client_of(user).call(request, version)
        except Closed:
            self.forget_connection(user)
            raise

    def ask(self, ask: Ask, modes: set[str]) -> str:
        if "cut" in modes:
            return self._cut(ask)
        if "twice" in modes:
            return self._twice(ask)
        return self.patiently(lambda: self._once(ask), patient="once" not in modes)

    def _once(self, ask: Ask) -> str:
        try:
            return ask.show(self.call(ask.request, ask.version, user=ask.user))
        except Closed:
            self._note_if_not_offered(ask)
            return "closed"

    def _note_if_not_offered(self, ask: Ask) -> None:
        key, version = api_key(ask.request), newest(ask.request) if ask.version is None else ask.version
        offered = {api.api_key: (api.min_version, api.max_version) for api in self.call(ApiVersionsRequest(), 0).api_keys}
        low, high = offered.get(key, (0, -1))
        if not low <= version <= high:
            self.not_offered = f"{type(ask.request).__name__} in version {version}"

    def _cut(self, ask: Ask) -> str:
        """Let the broker execute a request, but lose the response: each actor keeps its state from before the request."""
        actors = copy.deepcopy(self.actors)
        answer = self.patiently(lambda: self._once(ask))
        for name, actor in actors.items():
            self.actors[name].restore(actor)
        return "lost" if answer.startswith("NONE") else answer

    def _twice(self, ask: Ask) -> str:
        """Send the same request on two connections at the same time.

        Repeat both requests while a response says that the broker is not ready.
        """
        version = newest(ask.request) if ask.version is None else ask.version

        def answers() -> list[str]:
            sent = [(client, client.send(ask.request, version)) for client in (self.connect(), self.connect())]
            shown = sorted(ask.show(client.receive(what)) for client, what in sent)
            for client, _ in sent:
                client.close()
            return shown

        settled: list[str] = self.until(
            "both answers are final", answers, lambda both: not any(answer.startswith(NOT_READY) for answer in both)
        )
        return " | ".join(settled)

    def patiently(self, ask: Callable[[], str], *, patient: bool = True) -> str:
        """Send a request until the broker is ready.

        Returns that response, or after the time limit the last response, which is compared with the transcript.
        """
        return oracle.final_value(ask, lambda answer: not patient or not answer.startswith(NOT_READY), clock=self.broker)

    def until(self, condition: str, ask: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
        """Return the first response that ``good`` accepts. Raises `oracle.ConditionNotMet`."""
        return oracle.wait_for(condition, ask, good, at=self.target, clock=self.broker)

    def wait_up_to_date(self) -> None:
        """Wait until the running brokers have applied all changes that their metadata lists."""
        oracle.up_to_date(self, getattr(self.broker, "up", ()))

    def close(self) -> None:
        for client, _, _ in self.parked.values():
            client.close()
        for user in list(self._clients):
            self.forget_connection(user)
        for own in self.own.values():
            own.client.close()


def name_of(code: int) -> str:
    return Code(code).name
