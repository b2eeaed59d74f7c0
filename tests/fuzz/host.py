"""A simulated broker under fuzzing: what goes in is kept as a trace, and after each input every promise is checked."""

from __future__ import annotations

import base64
import random
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import structlog

from broker.api import SERVED, declaration, newest_version
from protocol.codec import DECODE_FAILURES, api, decode_body, decode_response_frame, read_client_id
from protocol.errors import DecodeError
from protocol.messages import APIS
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import build_batch
from tests.fuzz import parts, refusals, settings, state, stored
from tests.raw import create
from tests.simulated import SimulatedBroker, SimulatedClient

HOLD_MS = 20.0
"""Thread CPU time that one request, timer or step may hold the loop for."""
CLIENTS = 4
EXPECTED_LINES = frozenset({"marker_refused"})
"""An admin client's WriteTxnMarkers may fence the coordinator's own markers for ever, as with Kafka: a person must know."""
LOGGED: list[dict[str, Any]] = []
"""Lines of level error and above, since the last check."""


def _note(logger: Any, method: str, event: dict[str, Any]) -> Any:
    if method in ("error", "exception", "critical") and event["event"] not in EXPECTED_LINES:
        LOGGED.append(event)
    raise structlog.DropEvent


def listen_to_the_log() -> None:
    """Keep what is logged as an error; nothing is printed."""
    structlog.configure(processors=[structlog.processors.format_exc_info, _note])


def warm_up() -> None:
    """Import what a broker imports at first use, so that no request is charged for it."""
    for key in SERVED:
        declaration(key)
        api(key)
    listen_to_the_log()
    broker = SimulatedBroker(settings.FIXED).start()
    client: Any = broker.connect()
    create(client, "t")
    for compression in range(5):
        batch = bytes(build_batch([(None, b"v")], 0, compression=compression))
        client.call(ProduceRequest(None, -1, 1_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]), 9)
    broker.close()


class Failure(AssertionError):
    """A promise that was not kept. The trace reproduces it."""

    is_hold = False


class Held(Failure):
    """The loop was held for too long."""

    is_hold = True


@dataclass(slots=True)
class Exchange:
    """One request and its answer. ``request`` is None where it cannot be decoded."""

    key: int
    version: int
    correlation_id: int
    request: Any
    response: Any = None


@dataclass(slots=True)
class Line:
    """One client: what it has sent of a frame, and the requests whose answers are due, in order."""

    client: SimulatedClient
    sent: bytearray = field(default_factory=bytearray)
    due: deque[Exchange] = field(default_factory=deque)
    is_lost: bool = False


def parsed(frame: bytes) -> Exchange | None:
    """What the broker should make of a frame; None where it must close the connection."""
    if len(frame) < 8:
        return None
    key, version = int.from_bytes(frame[:2], "big", signed=True), int.from_bytes(frame[2:4], "big", signed=True)
    correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
    if key not in SERVED:
        return None
    if not APIS[key].min_version <= version <= newest_version(key, unstable=False):
        return Exchange(18, 0, correlation_id, None) if key == 18 else None
    codec = api(key)
    try:
        _, at = read_client_id(frame, flexible=version >= codec.flexible_from)
        request = decode_body(codec.decode_request, frame, at, version, may_trail=True)
    except DECODE_FAILURES:
        return None
    return Exchange(key, version, correlation_id, request)


class Host:
    """Performs actions on a broker in this process and checks each. Raises `Failure`."""

    def __init__(self, seed: int) -> None:
        listen_to_the_log()
        LOGGED.clear()
        self.trace: list[str] = []
        self.longest_ms = 0.0
        self.inputs = 0
        given = settings.drawn(random.Random(seed))
        self._broker = SimulatedBroker(given.settings, given.features, seed=seed).start()
        self._expires_producers = "producer.id.expiration.ms" in given.settings
        # Levels that are given at a start win over what clients have set since.
        self._broker._features = {}
        self._begin()

    @property
    def now_ms(self) -> int:
        return self._broker.now_ms()

    def _begin(self) -> None:
        """A broker has started: watch its loop, connect to it."""
        env: Any = self._broker.env
        soon, later = env.call_soon, env.call_later
        env.call_soon = lambda callback: soon(self._timed(callback))
        env.call_later = lambda delay_ms, callback: later(delay_ms, self._timed(callback))
        self.lines = [Line(self._broker.connect("fuzz")) for _ in range(CLIENTS)]
        self._bystander = self._broker.connect("bystander")
        self._state = state.live(self._broker.broker)

    def _timed(self, callback: Callable[[], None]) -> Callable[[], None]:
        def timed() -> None:
            began = time.thread_time()
            callback()
            self._held((time.thread_time() - began) * 1000, 1, callback)

        return timed

    def _held(self, ms: float, requests: int, what: object) -> None:
        self.longest_ms = max(self.longest_ms, ms / requests)
        if ms > HOLD_MS * requests:
            raise Held(f"the loop was held for {ms:.0f} ms by {str(what)[:300]}")

    # actions, each of them a line of the trace

    def perform(self, line: str) -> list[Exchange]:
        """Do what a line of a trace says; the answers that came."""
        self.trace.append(line)
        word, *rest = line.split()
        try:
            if word in ("send", "sendz"):
                raw = bytes.fromhex(rest[1]) if word == "send" else zlib.decompress(base64.b64decode(rest[1]))
                return self._send(self.lines[int(rest[0])], raw)
            if word == "cut":
                self._cut(self.lines[int(rest[0])])
            elif word == "wait":
                return self._wait(int(rest[0]))
            elif word in ("restart", "kill"):
                self._restart(kill=word == "kill")
            else:
                raise ValueError(f"no such action: {line}")
        except Failure:
            raise
        except Exception as error:
            raise Failure(f"{type(error).__name__} left the broker: {error}") from error
        return []

    def send(self, at: int, raw: bytes) -> list[Exchange]:
        if len(raw) <= 2_000:
            return self.perform(f"send {at} {raw.hex()}")
        return self.perform(f"sendz {at} {base64.b64encode(zlib.compress(raw)).decode()}")

    def _send(self, line: Line, raw: bytes) -> list[Exchange]:
        self.inputs += 1
        if line.is_lost:
            line.client.close()
            line.client, line.is_lost = self._broker.connect("fuzz"), False
        line.sent += raw
        was_due = len(line.due)
        names = self._whole_frames(line)
        whole = len(names)
        asked = line.due[-1] if line.due else None
        before = self._state
        began = time.thread_time()
        line.client.send_bytes(raw)
        self._held((time.thread_time() - began) * 1000, max(whole, 1), names)
        answers = self._answers()
        after = self._state = state.live(self._broker.broker)
        self._check_log()
        if line.client._transport.is_closed:
            self._lost(line)
            if whole <= 1 and not answers and not was_due:
                self._check_unchanged(before, after, set(), "a frame that closed the connection")
        elif whole == 1 and not was_due and asked is not None and any(answer is asked for answer in answers):
            self._check_refusal(asked, before, after)
        return answers

    def _whole_frames(self, line: Line) -> list[str]:
        """Take what is whole out of what was sent; the names of the requests."""
        names = []
        while len(line.sent) >= 4:
            size = int.from_bytes(line.sent[:4], "big", signed=True)
            if size <= 0 or len(line.sent) < 4 + size:
                break
            exchange = parsed(bytes(line.sent[4 : 4 + size]))
            del line.sent[: 4 + size]
            names.append("an unreadable frame" if exchange is None else self._name(exchange))
            if exchange is None:
                # The connection is closed here: what was asked before is still answered.
                line.sent.clear()
                break
            if exchange.key != 0 or exchange.request.acks != 0:
                line.due.append(exchange)
        return names

    def _cut(self, line: Line) -> None:
        line.client.close()
        self._lost(line)
        self._settle()

    def _lost(self, line: Line) -> None:
        line.sent.clear()
        line.due.clear()
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
        wrong = state.difference(before, after) - moving
        if wrong:
            raise Failure(
                f"a {'kill' if kill else 'stop'} and a start brought back another state:\n{state.told(wrong, before, after)}"
            )

    # checks

    def _answers(self) -> list[Exchange]:
        answers = []
        for line in self.lines:
            while (frame := line.client._transport.next_frame()) is not None:
                if not line.due:
                    raise Failure(f"an answer that nobody asked for: {frame[:40].hex()}")
                exchange = line.due.popleft()
                try:
                    correlation_id, exchange.response = decode_response_frame(exchange.key, exchange.version, frame)
                except DecodeError as error:
                    raise Failure(f"{self._name(exchange)}: the answer cannot be decoded: {error}") from error
                if correlation_id != exchange.correlation_id:
                    raise Failure(f"{self._name(exchange)}: answer {correlation_id} in the place of {exchange.correlation_id}")
                found = refusals.codes(exchange.response)
                if any(code == -1 for _, code in found) and not refusals.may_be_unknown(exchange.key, self._state):
                    raise Failure(f"{self._name(exchange)}: UNKNOWN_SERVER_ERROR to {str(exchange.request)[:500]}")
                answers.append(exchange)
        return answers

    @staticmethod
    def _name(exchange: Exchange) -> str:
        return f"{APIS[exchange.key].name} version {exchange.version}"

    def _check_log(self) -> None:
        if LOGGED or self._broker.broker.unexpected_errors:
            lines = [f"  {e.get('event')}: {e}"[:3000] for e in LOGGED]
            raise Failure("the broker logged an error:\n" + "\n".join(lines))

    def _check_refusal(self, exchange: Exchange, before: state.State, after: state.State) -> None:
        reasons = refusals.refused(refusals.codes(exchange.response))
        wrong = set() if exchange.request is None else parts.broken(exchange, before, after)
        if wrong:
            said = f"{self._name(exchange)} has changed what it refused to: {str(exchange.request)[:500]}"
            raise Failure(f"{said}\n{state.told(wrong, before, after)}")
        if not reasons and exchange.key not in refusals.LOOKS:
            return
        allowed = refusals.excused(exchange.key, exchange.request, reasons, before, after)
        self._check_unchanged(before, after, allowed, f"{self._name(exchange)}, answered {sorted(reasons)}")

    def _check_unchanged(self, before: state.State, after: state.State, allowed: set[state.Key], what: str) -> None:
        wrong = state.difference(before, after) - allowed
        if wrong:
            raise Failure(f"{what} has changed something:\n{state.told(wrong, before, after)}")

    def check_bystander(self) -> None:
        """Another connection is answered."""
        if self._bystander._transport.is_closed:
            # Idle for too long.
            self._bystander = self._broker.connect("bystander")
        began = time.thread_time()
        answer = self._bystander.call(MetadataRequest([]), 12)
        self._held((time.thread_time() - began) * 1000, 1, "the bystander's request")
        if not answer.brokers:
            raise Failure("a bystander is not answered")

    def end(self) -> None:
        """The last checks: what a stop and a start bring back."""
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
