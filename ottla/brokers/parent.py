"""The parent of a cluster's processes: starts and stops them in order, and reports their state.

The controller starts first and stops last, because brokers register with it and need it for a controlled shutdown. A node that has
ended is reported, and started again on request, or with `--restart-nodes` after a delay. When no node is running and no start is
scheduled, the parent exits with an error. Its event loop uses neither asyncio nor threads, because it forks processes.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ottla.broker.process.ready_file import ReadyFile
from ottla.brokers.control_socket import SOCKET_FILE, Answer, ControlSocket
from ottla.brokers.plan import PlannedNode
from ottla.brokers.processes import Child, start
from ottla.brokers.restarts import Restarts
from ottla.process import OwnerProcess, print_error, wake_at_the_end_of_the_parent

START_TIMEOUT_S = 600.0
"""Timeout of the first start of a process, in seconds. It is long because brokers may read large logs after a crash, all at the
same time. A broker that cannot start exits by itself."""
STOP_TIMEOUT_S = 30.0
"""Time, in seconds, after which a process that does not stop is killed."""
END_CHECK_S = 0.1
"""Interval, in seconds, of checks whether the process that started the parent still exists."""
COMMAND_BYTES = 1 << 12
"""Maximum length of a command on stdin, in bytes."""

RESTART_COMMAND = "restart"

RunNode = Callable[[PlannedNode, OwnerProcess], int]


class StartFailed(Exception):
    """A process of the cluster did not start. The process has logged the reason."""


class AllEnded(Exception):
    """All processes of the cluster have ended."""


@dataclass(slots=True, kw_only=True)
class ClusterProcesses:
    """The planned nodes by node id, and settings of the whole cluster."""

    nodes: dict[int, PlannedNode]
    cluster_id: str
    data_dir: str
    is_terminal: bool
    restarts_nodes: bool = False
    """Whether a node that ends unexpectedly is started again."""


class Parent:
    """Runs the processes of a cluster until a signal stops the parent."""

    def __init__(self, cluster: ClusterProcesses, run_node: RunNode, *, ready_file: ReadyFile, takes_commands: bool) -> None:
        """With ``takes_commands``, each line of stdin is the id of a node to start again (sent by
        `ottla.testing.cluster_handle`)."""
        self._cluster = cluster
        self._run_node = run_node
        self._ready_file = ready_file
        self._takes_commands = takes_commands
        self._children: dict[int, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._stop_wanted = False
        self._is_up = False
        self._unread_commands = bytearray()
        self._owner: OwnerProcess | None = None
        self._restarts = Restarts()
        self._answers: dict[int, Answer] = {}
        """Pending responses to clients that wait for the restart of a node, by node id."""
        self._kill_s: dict[int, float] = {}
        """Times at which stopping nodes are killed, by node id."""
        self._control: ControlSocket | None = None

    def run(self, owner: OwnerProcess | None) -> int:
        """Start all nodes, wait for SIGTERM, SIGINT or the end of the owner process, and stop all nodes. Returns the exit code."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._want_stop)
        # An empty handler of SIGCHLD, so that the exit of a child wakes the selector.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: os.read(wake_read, 512))
        if self._takes_commands:
            self._selector.register(0, selectors.EVENT_READ, self._read_commands)
        self._owner = owner
        if owner is not None:
            wake_at_the_end_of_the_parent()
        try:
            self._start_all()
            if not self._stop_wanted:
                self._is_up = True
                self._open_control()
                self._report_ready()
            while not self._stop_wanted:
                self._wait(END_CHECK_S)
                self._restart_nodes()
        except (StartFailed, AllEnded) as failed:
            print_error(f"ottla: {failed}")
            return 1
        finally:
            if self._control is not None:
                self._control.close()
            self._stop_all()
            self._ready_file.remove()
            if owner is not None:
                owner.ended()
        return 0

    def _want_stop(self, number: int, frame: object) -> None:
        self._stop_wanted = True

    def _wait(self, longest_s: float) -> None:
        """Wait for events or the timeout, handle the events, and report nodes that have ended."""
        for key, _ in self._selector.select(min(longest_s, END_CHECK_S)):
            key.data()
        if self._owner is not None and self._owner.is_gone:
            self._stop_wanted = True
        for node_id, child in self._children.items():
            # While the cluster starts, `_start_all` handles an ended node and stops the whole cluster.
            if child.look_for_exit() and self._is_up and not self._stop_wanted:
                if child.has_unread_output:
                    # Read the reason of a failed start, which the process may have written just before its exit.
                    self._selector.get_key(child.output).data()
                self._ended(node_id, child)

    def _ended(self, node_id: int, child: Child) -> None:
        did_start, again = child.ready is not None, {}
        was_asked = self._kill_s.pop(node_id, None) is not None
        if not did_start:
            why = f" ({_why(child)}); its log says why" if child.failure is None else f": {child.failure}"
            self._answer(node_id, event="refused", reason=f"{child.name} did not start{why}")
        if self._cluster.restarts_nodes and not was_asked:
            again = {"starts_again_in_s": self._restarts.ended(node_id, time.monotonic())}
        what = "has ended" if did_start else "did not start"
        text = f"{child.name} {what} ({_why(child)})" + "".join(f" and is started again in {s:g} s" for s in again.values())
        self._say(text, event="ended", node=node_id, exit_code=child.exit_code, **again)

    def _restart_nodes(self) -> None:
        """Kill nodes that do not stop in time, and start nodes whose restart is due or requested. Raises `AllEnded`."""
        now_s = time.monotonic()
        for node_id, at_s in self._kill_s.items():
            if now_s >= at_s:
                self._children[node_id].send(signal.SIGKILL)
        wanted = {node_id for node_id in self._answers if not self._children[node_id].is_running}
        for node_id in {*wanted, *self._restarts.due(now_s)}:
            if not self._children[node_id].is_running and not self._stop_wanted:
                self._start(node_id)
        # A test that sends commands may kill all nodes and start them again later, so the parent must not exit.
        is_awaited = self._restarts or self._takes_commands or self._stop_wanted
        if not is_awaited and not any(child.is_running for child in self._children.values()):
            raise AllEnded("all nodes of the cluster have ended; the lines above say why")

    def _start(self, node_id: int) -> Child:
        self._restarts.started(node_id, time.monotonic())
        node = self._cluster.nodes[node_id]
        others = [child.output for child in self._children.values() if child.output >= 0]
        mine = [key.fd for key in self._selector.get_map().values() if key.fd > 2]
        child = start(node.name, lambda owner: self._run_node(node, owner), [*{*others, *mine}])
        self._children[node_id] = child

        def read() -> None:
            is_ready = child.read()
            if child.output < 0:
                self._selector.unregister(output)
            if is_ready:
                self._say_started(node_id, child)
                if self._is_up and all(child.ready is not None for child in self._children.values()):
                    # A restarted node has another process id and perhaps other ports, which the ready file names.
                    self._write_ready_file(self.ready_line())
                self._answer(node_id, event="started", node=node_id, name=child.name, pid=child.pid)

        output = child.output
        self._selector.register(output, selectors.EVENT_READ, read)
        return child

    def _start_all(self) -> None:
        controllers = [node_id for node_id, node in self._cluster.nodes.items() if node.is_controller]
        brokers = [node_id for node_id, node in self._cluster.nodes.items() if not node.is_controller]
        for group in (controllers, brokers):
            children = [self._start(node_id) for node_id in group]
            deadline_s = time.monotonic() + START_TIMEOUT_S
            while not self._stop_wanted and not all(child.ready is not None for child in children):
                ended = [child for child in children if not child.is_running]
                if ended:
                    raise StartFailed(f"{ended[0].name} did not start ({_why(ended[0])}); its log says why")
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    late = next(child.name for child in children if child.ready is None)
                    raise StartFailed(f"{late} was not ready after {START_TIMEOUT_S:.0f} s")
                self._wait(left_s)

    def _say(self, for_people: str, **for_programs: Any) -> None:
        line = for_people if self._cluster.is_terminal else json.dumps(for_programs)
        # The process that reads stdout may have exited; the cluster continues.
        with suppress(OSError):
            print(line, flush=True)

    def _say_started(self, node_id: int, child: Child) -> None:
        assert child.ready is not None
        where = child.ready.get("bootstrap") or child.ready.get("controller")
        what = {"node": node_id, "name": child.name, "pid": child.pid, "at": where, **_ports(child.ready)}
        self._say(f"{child.name} listens at {where}", event="started", **what)

    def _report_ready(self) -> None:
        ready = self.ready_line()
        line = json.dumps(ready)
        self._write_ready_file(ready)
        if self._cluster.is_terminal:
            print(f"ottla listens at {ready['bootstrap']}")
            print(f"Ctrl-C, or kill {os.getpid()}, stops the cluster; its data is kept", flush=True)
        else:
            print(line, flush=True)

    def _write_ready_file(self, ready: Mapping[str, Any]) -> None:
        is_secret = any("control" in broker or "token" in broker.get("schema_registry", {}) for broker in ready["brokers"].values())
        self._ready_file.write(json.dumps(ready) + "\n", is_secret=is_secret)

    def ready_line(self) -> Mapping[str, Any]:
        brokers = {}
        for node_id, child in self._children.items():
            assert child.ready is not None
            if not self._cluster.nodes[node_id].is_controller:
                brokers[str(node_id)] = {
                    "bootstrap": child.ready["bootstrap"],
                    "pid": child.pid,
                    "data_dir": child.ready["data_dir"],
                    "listening": child.ready["listening"],
                    **_ports(child.ready),
                }
        controller = next(c for n, c in self._children.items() if self._cluster.nodes[n].is_controller)
        return {
            "event": "ready",
            "bootstrap": ",".join(broker["bootstrap"] for broker in brokers.values()),
            "brokers": brokers,
            # For `ottla health`, each broker's address at its last listener, which is the plain listener.
            "listening": {f"broker-{n}": at for n, broker in brokers.items() for at in broker["listening"].values()},
            "controller": {
                "pid": controller.pid,
                "at": (controller.ready or {}).get("controller"),
                **_ports(controller.ready or {}),
            },
            "pid": os.getpid(),
            "cluster_id": self._cluster.cluster_id,
            "data_dir": self._cluster.data_dir,
        }

    def _read_commands(self) -> None:
        chunk = os.read(0, COMMAND_BYTES)
        if not chunk or len(self._unread_commands) > COMMAND_BYTES:
            # The process that sends commands has exited, so the cluster stops.
            self._selector.unregister(0)
            self._stop_wanted = True
            return
        self._unread_commands += chunk
        *lines, rest = bytes(self._unread_commands).split(b"\n")
        self._unread_commands = bytearray(rest)
        for line in lines:
            self._start_again(line)

    def _start_again(self, line: bytes) -> None:
        try:
            node_id = int(line)
            child = self._children[node_id]
        except (ValueError, KeyError):
            self._say("unknown command", event="refused", reason=f"{line!r} is not the id of a node")
            return
        child.look_for_exit()
        if child.is_running:
            self._say(f"{child.name} is running already", event="refused", node=node_id, reason=f"{child.name} is running already")
        else:
            self._start(node_id)

    def _open_control(self) -> None:
        try:
            self._control = ControlSocket(self._cluster.data_dir, self._selector, self._control_command)
        except OSError as error:
            # The cluster works without the socket, for example on a filesystem that does not support sockets.
            print_error(
                f"ottla: commands for single nodes are disabled: {SOCKET_FILE} cannot be created ({error.strerror or error})"
            )

    def _control_command(self, line: str, answer: Answer) -> None:
        """Execute a restart command: stop the node if it is running, and start it. The response is sent when the node is ready."""
        verb, _, name = line.partition(" ")
        known = {text: node_id for node_id, node in self._cluster.nodes.items() for text in (str(node_id), node.name)}
        if verb != RESTART_COMMAND or name not in known:
            names = ", ".join(node.name for node in self._cluster.nodes.values())
            answer({"event": "refused", "reason": f"{name!r} is not a node of the cluster; its nodes are {names}"})
            return
        node_id = known[name]
        if node_id in self._answers:
            answer({"event": "refused", "reason": f"{self._children[node_id].name} is already being started"})
            return
        if self._lacks_controller(node_id):
            child = self._children[node_id]
            what = "is not restarted" if child.is_running else "cannot start"
            hint = "the controller is not running; run 'ottla cluster restart controller' first"
            answer({"event": "refused", "reason": f"{child.name} {what}: {hint}"})
            return
        self._answers[node_id] = answer
        child = self._children[node_id]
        if child.is_running:
            self._kill_s[node_id] = time.monotonic() + STOP_TIMEOUT_S
            # A process that is paused by SIGSTOP handles SIGTERM only after SIGCONT.
            child.send(signal.SIGCONT)
            child.send(signal.SIGTERM)

    def _lacks_controller(self, node_id: int) -> bool:
        """Whether a node is a broker that could not register, because the controller has ended and no start of it is pending."""
        if self._cluster.nodes[node_id].is_controller:
            return False
        controllers = [n for n, node in self._cluster.nodes.items() if node.is_controller]
        return not any(self._children[n].is_running or n in self._answers or self._restarts.is_scheduled(n) for n in controllers)

    def _answer(self, node_id: int, **answer: Any) -> None:
        if node_id in self._answers:
            self._answers.pop(node_id)(answer)

    def _stop_all(self) -> None:
        self._stop_wanted = True
        for is_controller in (False, True):
            group = [c for n, c in self._children.items() if self._cluster.nodes[n].is_controller is is_controller]
            for child in group:
                child.send(signal.SIGCONT)
                child.send(signal.SIGTERM)
            deadline_s = time.monotonic() + STOP_TIMEOUT_S
            while any(child.is_running for child in group) and time.monotonic() < deadline_s:
                self._wait(max(0.0, deadline_s - time.monotonic()))
            for child in group:
                if child.is_running:
                    print_error(f"ottla: {child.name} did not stop in {STOP_TIMEOUT_S:.0f} s and is killed")
                    child.send(signal.SIGKILL)
                    os.waitpid(child.pid, 0)


def _ports(ready: Mapping[str, Any]) -> dict[str, Any]:
    """Return the addresses of a node's HTTP servers that are enabled."""
    return {name: ready[name] for name in ("metrics", "control", "console", "schema_registry") if name in ready}


def _why(child: Child) -> str:
    code = child.exit_code or 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
