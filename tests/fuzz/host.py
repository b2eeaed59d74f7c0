"""A simulated broker under fuzzing. Its inputs are recorded as a trace, and its guarantees are checked after each input."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import structlog

from ottla.broker.handlers.registry import SERVED, declaration
from ottla.protocol.codec import api
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.fuzz import parts, refusals, settings, state, stored
from tests.fuzz.exchange import Conversation, Exchange, Failure, Held, is_unknown_error
from tests.fuzz.settings import Given
from tests.support.counting import Limit, LineMeter, Meter, TimeMeter
from tests.support.raw_client import create

T = TypeVar("T")

HOLD = Limit(lines=150_000, ms=20)
"""Longest time that one request, timer or step may block the event loop."""
CLIENTS = 4
EXPECTED_LINES = frozenset({"marker_refused"})
"""Events that may be logged as errors.

An admin client's WriteTxnMarkers may fence the coordinator's own markers forever, as in Kafka, and an operator must be informed of
that.
"""
LOGGED: list[dict[str, Any]] = []
"""Log lines of level error and above since the last check."""


def _note(logger: Any, method: str, event: dict[str, Any]) -> Any:
    if method in ("error", "exception", "critical") and event["event"] not in EXPECTED_LINES:
        LOGGED.append(event)
    raise structlog.DropEvent


def listen_to_the_log() -> None:
    """Record log lines of level error and above in `LOGGED`, and print nothing."""
    structlog.configure(processors=[structlog.processors.format_exc_info, _note])


def warm_up() -> None:
    """Import the modules that a broker imports at first use, so that no request is measured together with such an import."""
    for key in SERVED:
        declaration(key)
        api(key)
    listen_to_the_log()
    broker = SimulatedBroker(settings.FIXED).start()
    client: Any = broker.connect()
    create(client, "t")
    for compression in range(5):
        batch = bytes(build_batch([(None, b"v")], 0, compression=compression))
        client.call(
            ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=1_000,
                topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=batch)])],
            ),
            9,
        )
    broker.close()


@dataclass(slots=True)
class Line:
    """A client connection, with the exchanges on it."""

    client: SimulatedClient
    talk: Conversation = field(default_factory=Conversation)
    is_lost: bool = False


@dataclass(slots=True, frozen=True)
class Action:
    """A line of a trace: ``send`` bytes on a connection, ``cut`` the connection, ``wait``, ``restart`` or ``kill`` the broker."""

    word: str
    line: int = 0
    raw: bytes = b""
    ms: int = 0


def action(text: str) -> Action:
    """Parse a line of a trace. Raises ValueError."""
    word, *rest = text.split()
    if word == "send":
        return Action("send", int(rest[0]), bytes.fromhex(rest[1]))
    if word == "sendz":
        return Action("send", int(rest[0]), zlib.decompress(base64.b64decode(rest[1])))
    if word == "cut":
        return Action(word, int(rest[0]))
    if word == "wait":
        return Action(word, ms=int(rest[0]))
    if word in ("restart", "kill"):
        return Action(word)
    raise ValueError(f"unknown action: {text}")


def text_of(action: Action) -> str:
    """Format an action as a line of a trace."""
    if action.word == "cut":
        return f"cut {action.line}"
    if action.word == "wait":
        return f"wait {action.ms}"
    if action.word != "send":
        return action.word
    if len(action.raw) <= 2_000:
        return f"send {action.line} {action.raw.hex()}"
    return f"sendz {action.line} {base64.b64encode(zlib.compress(action.raw)).decode()}"


class Trace:
    """Records every action that is performed."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self.inputs = 0

    def do(self, action: Action) -> list[Exchange]:
        """Perform an action and check its results. Returns the exchanges that it completed."""
        raise AssertionError("a subclass must implement its actions")

    @property
    def trace(self) -> list[str]:
        """The performed actions, formatted as lines of a trace."""
        return [text_of(action) for action in self._actions]

    def perform(self, text: str) -> list[Exchange]:
        """Perform the action in a line of a trace. Returns the exchanges that it completed."""
        return self._do(action(text))

    def send(self, at: int, raw: bytes) -> list[Exchange]:
        return self._do(Action("send", at, raw))

    def _do(self, action: Action) -> list[Exchange]:
        self._actions.append(action)
        self.inputs += action.word == "send"
        return self.do(action)


class Host(Trace):
    """Performs actions on a broker in this process and checks the result of each. Raises `Failure`.

    How long the event loop is blocked is counted in lines of Python, so that a trace always fails or never fails.
    """

    meter_type: type[LineMeter | TimeMeter] = LineMeter

    def __init__(self, seed: int, given: Given) -> None:
        super().__init__()
        self.meter: Meter = self.meter_type()
        self.longest = 0.0
        listen_to_the_log()
        LOGGED.clear()
        self._broker = SimulatedBroker(given.settings, given.features, seed=seed).start().with_coordinators()
        self._max_message_bytes = int(given.settings.get("message.max.bytes", refusals.ROOM_BYTES))
        self._expires_producers = "producer.id.expiration.ms" in given.settings
        # Restart without feature levels, because they would override levels that clients have set.
        self._broker._features = {}
        self._begin()

    @property
    def now_ms(self) -> int:
        return self._broker.now_ms()

    def _begin(self) -> None:
        """Instrument the event loop of the started broker, and connect the clients."""
        env: Any = self._broker.env
        soon, later, aside = env.call_soon, env.call_later, env.run_aside
        env.call_soon = lambda callback: soon(self._counted(callback))
        env.call_later = lambda delay_ms, callback: later(delay_ms, self._counted(callback))
        # Work in another thread does not block the event loop.
        env.run_aside = lambda work, done: soon(lambda: aside(work, done))
        self._asked: list[str] = []
        self.lines = [Line(self._connect()) for _ in range(CLIENTS)]
        self._bystander = self._connect("bystander")
        self._state = state.live(self._broker.broker)

    def _connect(self, client_id: str = "fuzz") -> SimulatedClient:
        client = self._broker.connect(client_id)
        connection: Any = client._connection
        received = connection.buffer_updated

        connection.buffer_updated = lambda size_bytes: self._measured(lambda: received(size_bytes), self._asked)
        return client

    def _counted(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: self._measured(callback, [*self._asked, callback])

    def _measured(self, work: Callable[[], T], what: Sequence[object]) -> T:
        self.meter.longest = 0.0
        result = self.meter.run(work)
        self.longest = max(self.longest, self.meter.longest)
        exceeded = self.meter.exceeds(HOLD)
        if exceeded:
            raise Held(f"the loop was held for {exceeded}, by {str(what)[:300]}")
        return result

    def do(self, action: Action) -> list[Exchange]:
        try:
            if action.word == "send":
                return self._send(self.lines[action.line], action.raw)
            if action.word == "cut":
                self._cut(self.lines[action.line])
            elif action.word == "wait":
                return self._wait(action.ms)
            else:
                self._restart(kill=action.word == "kill")
        except Failure:
            raise
        except Exception as error:
            raise Failure(f"{type(error).__name__} left the broker: {error}") from error
        return []

    def _send(self, line: Line, raw: bytes) -> list[Exchange]:
        if line.is_lost:
            line.client.close()
            line.client, line.is_lost = self._connect(), False
        was_due = len(line.talk.due)
        names = line.talk.sent(raw)
        whole = len(names)
        asked = line.talk.due[-1] if line.talk.due else None
        before = self._state
        self._asked = names
        line.client.send_bytes(raw)
        answers = self._answers()
        after = self._state = state.live(self._broker.broker)
        self._check_log()
        if line.client._transport.is_closed:
            self._lost(line)
            # A Produce request with acks=0 is executed without a response, even if a later frame closes the connection.
            silent = any(name.startswith("Produce ") for name in names)
            if whole <= 1 and not answers and not was_due and not silent:
                self._check_unchanged(before, after, set(), "a frame that closed the connection")
        elif whole == 1 and not was_due and asked is not None and any(answer is asked for answer in answers):
            self._check_refusal(asked, before, after)
        return answers

    def _cut(self, line: Line) -> None:
        line.client.close()
        self._lost(line)
        self._settle()

    def _lost(self, line: Line) -> None:
        line.talk.lost()
        line.is_lost = True

    def _wait(self, ms: int) -> list[Exchange]:
        self._broker.env.advance(ms)
        return self._settle()

    def _settle(self) -> list[Exchange]:
        self._broker.env.settle()
        answers = self._answers()
        self._state = state.live(self._broker.broker)
        self._check_log()
        for line in self.lines:
            if line.client._transport.is_closed and not line.is_lost:
                self._lost(line)
        return answers

    def _restart(self, *, kill: bool) -> None:
        before = state.durable(self._broker.broker)
        moving = state.moving(self._broker.broker)
        self._broker.restart(kill=kill)
        self._check_log()
        after = state.durable(self._broker.broker)
        moving |= state.moving(self._broker.broker)
        self._begin()
        # A restart may load an expired producer from the log.
        again = {key for key in after if key[0] == "producer" and key not in before} if self._expires_producers else set()
        wrong = state.difference(before, after) - moving - again
        if wrong:
            raise Failure(
                f"a {'kill' if kill else 'stop'} and a start brought back another state:\n{state.diff_text(wrong, before, after)}"
            )

    def _answers(self) -> list[Exchange]:
        answers = []
        for line in self.lines:
            while (frame := line.client._transport.next_frame()) is not None:
                exchange = line.talk.received(frame)
                if is_unknown_error(exchange) and not refusals.may_be_unknown(exchange.key, self._state, self._max_message_bytes):
                    raise Failure(f"{exchange}: UNKNOWN_SERVER_ERROR to {str(exchange.request)[:500]}")
                answers.append(exchange)
        return answers

    def _check_log(self) -> None:
        if LOGGED or self._broker.broker.unexpected_errors:
            lines = [f"  {e.get('event')}: {e}"[:3000] for e in LOGGED]
            raise Failure("the broker logged an error:\n" + "\n".join(lines))

    def _check_refusal(self, exchange: Exchange, before: state.State, after: state.State) -> None:
        reasons = refusals.refused(refusals.codes(exchange.response))
        wrong = set() if exchange.request is None else parts.broken(exchange, before, after)
        if wrong:
            said = f"{exchange} has changed what it refused to: {str(exchange.request)[:500]}"
            raise Failure(f"{said}\n{state.diff_text(wrong, before, after)}")
        if not reasons and exchange.key not in refusals.LOOKS:
            return
        allowed = refusals.excused(exchange.key, exchange.request, reasons, before, after)
        self._check_unchanged(before, after, allowed, f"{exchange}, answered {sorted(reasons)}")

    def _check_unchanged(self, before: state.State, after: state.State, allowed: set[state.Key], what: str) -> None:
        wrong = state.difference(before, after) - allowed
        if wrong:
            raise Failure(f"{what} has changed something:\n{state.diff_text(wrong, before, after)}")

    def check_bystander(self) -> None:
        """Check that the broker still answers another connection."""
        if self._bystander._transport.is_closed:
            # The broker has closed this idle connection.
            self._bystander = self._connect("bystander")
        self._asked = ["the bystander's request"]
        answer = self._bystander.call(MetadataRequest([]), 12)
        if not answer.brokers:
            raise Failure("a bystander is not answered")

    def end(self) -> None:
        """Perform the last checks: a clean restart must restore the state, and every stored batch must be readable."""
        self.perform("restart")
        self.check_bystander()
        for log in state.logs(self._broker.broker):
            unreadable = stored.unreadable(log)
            if unreadable is not None:
                raise Failure(f"{log}: {unreadable}")
        self._broker.stop()
        self._check_log()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.abandon()


class TimedHost(Host):
    """Measures in processor time how long the event loop is blocked. This includes the work of C functions."""

    meter_type = TimeMeter
