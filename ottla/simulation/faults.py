"""Injects the faults of a plan into a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from ottla.simulation import plan as plans
from ottla.simulation.clients.actors import Actor, Setting
from ottla.simulation.links import Links
from ottla.simulation.machines import Machines
from ottla.simulation.node import Node
from ottla.simulation.plan import PlannedFault
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Task

RESTART_MS = 100
"""Delay, in ms, before a node restarts after a failed sync, or after a crash for which ``down_ms`` has no downtime."""


class FaultyWorld(Protocol):
    """The attributes of `simulation.world.World` that faults change."""

    setting: Setting
    reached: Counter[str]
    machines: Machines
    scheduler: Scheduler
    links: Links
    actors: dict[int, tuple[Actor, Task]]
    retired: list[Task]
    down_ms: dict[int, int]
    """For each node id: the downtime after the node's next crash, in ms."""
    start_cut: dict[int, int]
    """For each node id: the number of disk operations after which the node's next start crashes."""
    disk_has_refused: bool
    clock_was_set_back: bool

    def say(self, line: str) -> None: ...

    def spawn(self, place: int) -> None:
        """Start the client at this index of the plan's actors as a new process."""
        ...


class InjectedFaults:
    """Injects faults, and ends each after its duration. `World.heal` ends all."""

    def __init__(self, world: FaultyWorld) -> None:
        self._world = world
        controller = world.machines.controller
        self._nodes: list[Node[Any]] = [*world.machines.brokers, *([] if controller is None else [controller])]

    def trigger(self, fault: PlannedFault) -> None:
        if self._world.setting.is_over:
            return
        self._world.say(f"fault: {fault}")
        self._world.reached[f"fault: {fault.kind}"] += 1
        node = self._nodes[fault.node % len(self._nodes)]
        if fault.kind in (plans.KILL, plans.POWER_CUT, plans.STOP, plans.CRASH_IN_WRITE, plans.CRASH_IN_START):
            self._end_life(node, fault)
        elif fault.kind == plans.KILL_ALL:
            for each in self._nodes:
                self._end_life(each, fault)
        elif fault.kind in (plans.PAUSE_PROCESS, plans.ISOLATE, plans.CUT_APART, plans.CUT_ONE_WAY):
            self._trigger_between(node, fault)
        elif fault.kind in (plans.PAUSE, plans.TAKE_OVER, plans.KILL_CLIENT):
            self._trigger_client(fault)
        elif fault.kind in (plans.FULL_DISK, plans.SLOW_DISK, plans.FAILED_SYNC, plans.CLOCK):
            self._trigger_machine(node, fault)
        else:
            self._trigger_network(node, fault)

    def _later(self, fault: PlannedFault, call: Callable[[], None]) -> None:
        self._world.scheduler.call_later(fault.for_ms, call)

    def _end_life(self, node: Node[Any], fault: PlannedFault) -> None:
        node.disk.cut_operation = ""
        self._world.down_ms[node.node_id] = fault.for_ms
        if fault.kind == plans.CRASH_IN_WRITE:
            node.disk.cut_power_in(fault.number, fault.within)
        elif fault.kind == plans.STOP:
            node.stop()
        else:
            if fault.kind == plans.CRASH_IN_START:
                self._world.start_cut[node.node_id] = fault.number
            node.crash(power_cut=node.loses_power and fault.kind != plans.KILL)

    def _trigger_machine(self, node: Node[Any], fault: PlannedFault) -> None:
        if fault.kind == plans.FULL_DISK:
            node.disk.is_full = self._world.disk_has_refused = True

            def room() -> None:
                node.disk.is_full = False

            self._later(fault, room)
        elif fault.kind == plans.SLOW_DISK:
            node.aside_slowness = float(fault.number)

            def fast() -> None:
                node.aside_slowness = 1.0

            self._later(fault, fast)
        elif fault.kind == plans.FAILED_SYNC:
            self._world.disk_has_refused = True
            node.disk.fail_next_sync()

            def start_again() -> None:
                # Simulate an operator who restarts the node after a failed sync, unless another fault has restarted the node, or
                # `World.heal` has ended all faults.
                if self._world.setting.is_over:
                    return
                if node.disk.has_failed_sync:
                    self._end_life(node, PlannedFault(kind=plans.POWER_CUT, at_ms=0, for_ms=RESTART_MS))
                elif node.disk.is_to_fail_sync:
                    self._world.scheduler.call_later(RESTART_MS, start_again)

            self._later(fault, start_again)
        else:
            node.skew_ms += fault.number
            self._world.clock_was_set_back |= fault.number < 0

    def _trigger_network(self, node: Node[Any], fault: PlannedFault) -> None:
        if fault.kind == plans.SLOW_NETWORK:
            self._world.links.slowness = float(fault.number)

            def fast() -> None:
                self._world.links.slowness = 1.0

            self._later(fault, fast)
            return
        if fault.actor not in self._world.actors:
            return
        client = self._world.actors[fault.actor][0].name
        ways = [(client, node.host)] if fault.kind != plans.CUT_FROM else []
        if fault.kind != plans.CUT_TO:
            ways.append((node.host, client))
        for way in ways:
            self._cut(*way, fault)

    def _trigger_between(self, node: Node[Any], fault: PlannedFault) -> None:
        """Inject a fault that ends no process: pause a process, or cut its connections to other processes."""
        if fault.kind == plans.PAUSE_PROCESS:
            node.pause()
            self._later(fault, node.wake)
            return
        others = [self._nodes[fault.number % len(self._nodes)]]
        if fault.kind == plans.ISOLATE:
            others = [other for other in self._nodes if other is not node]
        for other in others:
            self._cut(node.host, other.host, fault)
            if fault.kind != plans.CUT_ONE_WAY:
                self._cut(other.host, node.host, fault)

    def _cut(self, source: str, target: str, fault: PlannedFault) -> None:
        self._world.links.cut(source, target)
        self._later(fault, lambda: self._world.links.heal(source, target))

    def _trigger_client(self, fault: PlannedFault) -> None:
        if fault.actor not in self._world.actors:
            return
        actor, task = self._world.actors[fault.actor]
        if task.is_done:
            return
        if fault.kind == plans.KILL_CLIENT:
            task.kill()
            actor.client.close()
            self._later(fault, lambda: self._world.spawn(fault.actor))
            del self._world.actors[fault.actor]
            return
        task.pause()
        self._later(fault, task.wake)
        if fault.kind == plans.TAKE_OVER:
            self._world.setting.taken_over.add(actor.name)
            self._world.retired.append(task)
            self._world.spawn(fault.actor)
