"""A broker process under fuzzing, over sockets. `tests.fuzz.host.Host` is the equivalent for a broker in this process.

The state of a process cannot be inspected. The checks are that the process runs and answers other clients, and its memory, log and
exit code.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Self

from ottla import Broker, BrokerFailed
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.simulation.client import Closed
from tests.fuzz import refusals
from tests.fuzz.exchange import Conversation, Exchange, Failure, is_unknown_error
from tests.fuzz.host import CLIENTS, EXPECTED_LINES, Action, Trace
from tests.fuzz.settings import Given
from tests.support.raw_client import RawClient

MEMORY_BYTES = 150 << 20
"""Memory in bytes that the process may use in addition to its use after the start."""
SEND_TIMEOUT_S = 5.0
LONGEST_WAIT_MS = 20
"""Upper limit in ms of a wait in a trace, because a wait takes real time over sockets."""


class _Line:
    """One socket with its pending requests, and the partial frame received on it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.talk = Conversation()
        self._socket: socket.socket | None = None
        self._received = bytearray()

    def send(self, raw: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, SEND_TIMEOUT_S)
        self.talk.sent(raw)
        try:
            self._socket.settimeout(SEND_TIMEOUT_S)
            self._socket.sendall(raw)
        except OSError:
            # The broker has closed the connection, or does not read further requests until its responses are read.
            self.cut()

    def answers(self) -> list[Exchange]:
        """Return the exchanges whose responses have arrived."""
        exchanges: list[Exchange] = []
        while self._socket is not None:
            try:
                self._socket.settimeout(0)
                piece = self._socket.recv(1 << 20)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            self._received += piece
            while len(self._received) >= 4:
                size = int.from_bytes(self._received[:4], "big")
                if len(self._received) < 4 + size:
                    break
                exchanges.append(self.talk.received(bytes(self._received[4 : 4 + size])))
                del self._received[: 4 + size]
            if not piece:
                self.cut()
        return exchanges

    def cut(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received.clear()
        self.talk.lost()


class SocketHost(Trace):
    """Performs actions on a broker process and checks the results that are visible from outside. Raises `Failure`."""

    def __init__(self, seed: int, given: Given) -> None:
        super().__init__()
        self._broker = Broker(settings=given.settings, features=given.features).start()
        self._lines_checked = 0
        self._begin()

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def _begin(self) -> None:
        host, _, port = self._broker.bootstrap.rpartition(":")
        self._lines = [_Line((host, int(port))) for _ in range(CLIENTS)]
        self._bystander = RawClient(self._broker.bootstrap, "bystander")
        self._start_bytes = self._resident_bytes("VmRSS")

    def do(self, action: Action) -> list[Exchange]:
        if action.word == "send":
            self._lines[action.line].send(action.raw)
            self.check_bystander()
            return self._answers()
        if action.word == "cut":
            self._lines[action.line].cut()
        elif action.word == "wait":
            time.sleep(min(action.ms, LONGEST_WAIT_MS) / 1000)
            return self._answers()
        else:
            self._restart(kill=action.word == "kill")
        return []

    def _answers(self) -> list[Exchange]:
        exchanges = [exchange for line in self._lines for exchange in line.answers()]
        for exchange in exchanges:
            if is_unknown_error(exchange) and exchange.key not in refusals.COORDINATED | refusals.MARKERS:
                raise Failure(f"{exchange}: UNKNOWN_SERVER_ERROR to {str(exchange.request)[:500]}")
        return exchanges

    def _restart(self, *, kill: bool) -> None:
        for line in self._lines:
            line.cut()
        self._bystander.close()
        if kill:
            self._broker.kill()
        elif (code := self._broker.stop()) != 0:
            raise Failure(f"the broker's exit code is {code}")
        self._check_log()
        try:
            self._broker.start()
        except BrokerFailed as error:
            raise Failure(str(error)) from error
        self._begin()

    def check_bystander(self) -> None:
        """Check that the broker still answers another connection. Earlier responses of the broker have arrived by then."""
        if not self._broker.is_running:
            raise Failure("the broker is gone")
        for again in (True, False):
            try:
                answer = self._bystander.call(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3)
            except (Closed, TimeoutError) as error:
                if not again or isinstance(error, TimeoutError):
                    raise Failure(f"a bystander is not answered: {error}") from error
                # The broker has closed this idle connection.
                self._bystander.close()
                self._bystander = RawClient(self._broker.bootstrap, "bystander")
            else:
                break
        if answer.error_code:
            raise Failure(f"a bystander is answered {answer.error_code}")

    def _resident_bytes(self, field: str) -> int:
        status = (Path("/proc") / str(self._broker.pid) / "status").read_text()
        line = next(one for one in status.splitlines() if one.startswith(field))
        return int(line.split()[1]) << 10

    def _check_log(self) -> None:
        lines = self._broker.logs
        for line in lines[self._lines_checked :]:
            try:
                event = json.loads(line)
            except ValueError:
                raise Failure(f"the broker said: {line}") from None
            if event["level"] in ("error", "critical") and event["event"] not in EXPECTED_LINES:
                raise Failure(f"the broker logged an error:\n{line[:3000]}")
        self._lines_checked = len(lines)

    def end(self) -> None:
        """Perform the last checks: memory, log and a clean exit."""
        taken = self._resident_bytes("VmHWM") - self._start_bytes
        if taken > MEMORY_BYTES:
            raise Failure(f"the broker has taken {taken >> 20} MiB more than at its start")
        if not self._bystander.call(MetadataRequest([]), 12).brokers:
            raise Failure("a bystander is not answered")
        self.perform("restart")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.cut()
        self._bystander.close()
        if self._broker.is_running:
            self._broker.kill()
        self._broker.close()
