"""A world driven by a seed: brokers, clients, network and disks on one scheduler in one process."""

from __future__ import annotations

import random
from collections.abc import Callable

from ottla.simulation import plan as plans
from ottla.simulation.clients.actors import ROLES, Actor, Setting, create_topics
from ottla.simulation.clients.noting import Notes
from ottla.simulation.clients.wire import Client, Ground
from ottla.simulation.env import START_MS
from ottla.simulation.links import Links
from ottla.simulation.node import PORT, Node
from ottla.simulation.plan import Plan, PlannedFault
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Task
from ottla.simulation.watch import Watch

TOPICS = {"in": 2, "out": 2, "a": 2, "b": 1, "trimmed": 1}
TOPIC_CONFIGS = {"internal.segment.bytes": "3000"}
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "400",
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
RESTART_MS = 100
"""When a broker starts again after a crash in a disk operation, in ms. Other faults have their own times."""
START_AGAIN_MS = 500
STEPS_BETWEEN = 8
"""After how many steps `run_until` checks whether it is finished."""
MOMENTS_MS = 400
"""All actors start within this time, in ms."""


class World:
    """Plays one plan. Everything that happens follows from the plan and its seed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scheduler = Scheduler(START_MS)
        self.notes = Notes()
        self.setting = Setting(topics=dict(TOPICS), notes=self.notes, budget=plan.transactions)
        self.links = Links(self.scheduler, self._rng("network"))
        self.nodes = [self._node(node_id) for node_id in range(plan.brokers)]
        self.ground = Ground(self.scheduler, self.links, [(node.host, PORT) for node in self.nodes])
        self.reached = self.ground.reached
        self.watch = Watch(self.notes.finding, self.reached, self.notes.identities)
        self.actors: dict[int, tuple[Actor, Task]] = {}
        """The actor and task that run at each place of the plan now."""
        self.retired: list[Task] = []
        self._instances = [0] * len(plan.actors)
        self._start_cut: dict[int, int] = {}
        self._down_ms: dict[int, int] = {}
        self.disk_has_refused = False
        self.clock_was_set_back = False
        self.steps = 0

    def _rng(self, name: str) -> random.Random:
        # A string as a seed does not depend on its hash, which differs between processes.
        return random.Random(f"{self.plan.seed}/{name}")

    def _node(self, node_id: int) -> Node:
        node = Node(
            node_id=node_id,
            scheduler=self.scheduler,
            links=self.links,
            rng=self._rng(f"broker-{node_id}"),
            settings=SETTINGS | {"ottla.durability": self.plan.durability},
            features={"transaction.version": self.plan.transaction_version},
            on_crash=self._crashed,
        )
        node.skew_ms = self.plan.skew_ms * (node_id + 1)
        node.loses_power = self.plan.durability == "power"
        return node

    # time

    def run_until(self, is_over: Callable[[], bool], at_most_ms: float) -> bool:
        """Run step by step until ``is_over``, at most for this time. Returns whether it is over."""
        scheduler = self.scheduler
        end_ms = scheduler.now_ms + at_most_ms
        soon, timers = scheduler.soon, scheduler.timers
        while self.steps % STEPS_BETWEEN or not is_over():
            self.steps += 1
            if soon:
                soon.popleft()()
            else:
                at_ms = timers.next_ms
                if at_ms is None or at_ms > end_ms:
                    return is_over()
                scheduler.now_ms = max(scheduler.now_ms, int(at_ms))
                timers.take().make()
            self.watch.check(self.nodes)
        return True

    def run_task(self, task: Task, at_most_ms: float) -> bool:
        return self.run_until(lambda: task.is_done, at_most_ms)

    # brokers

    def start(self, node: Node) -> None:
        if node.env is not None:
            return
        cut = self._start_cut.pop(node.node_id, None)
        if cut is not None:
            node.disk.cut_power_in(cut)
        if node.start():
            self._say(f"{node.host} serves, life {node.lives}")

    def _crashed(self, node: Node) -> None:
        self._say(f"{node.host} is gone: {node.disk.cut_operation or 'from outside'}")
        node.disk.cut_operation = ""
        self.watch.crashed(node, may_lose=node.loses_power)
        down_ms = self._down_ms.pop(node.node_id, START_AGAIN_MS if node.is_starting else RESTART_MS)
        self.scheduler.call_later(down_ms, lambda: self.start(node))

    def _say(self, line: str) -> None:
        self.notes.say(self.scheduler.now_ms, line)

    # clients

    def client(self, name: str) -> Client:
        return Client(self.ground, name, self._rng(name))

    def begin(self) -> None:
        """Start the brokers, create the topics, and schedule actors and faults. Raises AssertionError."""
        for node in self.nodes:
            self.start(node)
        client = self.client("maker")
        made = Task(self.scheduler, create_topics(client, self.setting.topics, TOPIC_CONFIGS))
        are_made = self.run_task(made, 60_000)
        assert are_made, "topics cannot be made"
        client.close()
        rng = self._rng("beginnings")
        for place in range(len(self.plan.actors)):
            self.scheduler.call_later(rng.random() * MOMENTS_MS, lambda place=place: self._spawn(place))  # type: ignore[misc]
        for fault in self.plan.faults:
            self.scheduler.call_later(fault.at_ms, lambda fault=fault: self._strike(fault))  # type: ignore[misc]

    def _spawn(self, place: int) -> None:
        role, name = self.plan.actors[place].split(":")
        assert role in ROLES, f"{role} is no role"
        self._instances[place] += 1
        client = self.client(f"{name}#{self._instances[place]}")
        actor = Actor(self.setting, client, role, name, client.rng)
        self.actors[place] = (actor, Task(self.scheduler, actor.steps()))

    def are_written(self) -> bool:
        """Whether no writer has anything left to do."""
        if len(self.actors) < len(self.plan.actors):
            return False
        return all(task.is_done or actor.role in READERS for actor, task in self.actors.values())

    # faults

    def _strike(self, fault: PlannedFault) -> None:
        if self.setting.is_over:
            return
        self._say(f"fault: {fault}")
        self.reached[f"fault: {fault.kind}"] += 1
        node = self.nodes[fault.node % len(self.nodes)]
        if fault.kind in (plans.KILL, plans.POWER_CUT, plans.STOP, plans.CRASH_IN_WRITE, plans.CRASH_IN_START):
            self._end_life(node, fault)
        elif fault.kind in (plans.PAUSE, plans.TAKE_OVER, plans.KILL_CLIENT):
            self._strike_client(fault)
        elif fault.kind in (plans.FULL_DISK, plans.SLOW_DISK, plans.FAILED_SYNC, plans.CLOCK):
            self._strike_machine(node, fault)
        else:
            self._strike_network(node, fault)

    def _later(self, fault: PlannedFault, call: Callable[[], None]) -> None:
        self.scheduler.call_later(fault.for_ms, call)

    def _end_life(self, node: Node, fault: PlannedFault) -> None:
        node.disk.cut_operation = ""
        self._down_ms[node.node_id] = fault.for_ms
        if fault.kind == plans.CRASH_IN_WRITE:
            node.disk.cut_power_in(fault.number, fault.within)
        elif fault.kind == plans.STOP:
            node.stop()
        else:
            if fault.kind == plans.CRASH_IN_START:
                self._start_cut[node.node_id] = fault.number
            node.crash(power_cut=node.loses_power and fault.kind != plans.KILL)

    def _strike_machine(self, node: Node, fault: PlannedFault) -> None:
        if fault.kind == plans.FULL_DISK:
            node.disk.is_full = self.disk_has_refused = True

            def room() -> None:
                node.disk.is_full = False

            self._later(fault, room)
        elif fault.kind == plans.SLOW_DISK:
            node.aside_slowness = float(fault.number)

            def fast() -> None:
                node.aside_slowness = 1.0

            self._later(fault, fast)
        elif fault.kind == plans.FAILED_SYNC:
            self.disk_has_refused = True
            node.disk.fail_next_sync()

            def start_again() -> None:
                # As if a person looked at it. Another fault may have ended that life before, or the faults are over (`heal`).
                if self.setting.is_over:
                    return
                if node.disk.has_failed_sync:
                    self._end_life(node, PlannedFault(kind=plans.POWER_CUT, at_ms=0, for_ms=RESTART_MS))
                elif node.disk.is_to_fail_sync:
                    self.scheduler.call_later(RESTART_MS, start_again)

            self._later(fault, start_again)
        else:
            node.skew_ms += fault.number
            self.clock_was_set_back |= fault.number < 0

    def _strike_network(self, node: Node, fault: PlannedFault) -> None:
        if fault.kind == plans.SLOW_NETWORK:
            self.links.slowness = float(fault.number)

            def fast() -> None:
                self.links.slowness = 1.0

            self._later(fault, fast)
            return
        if fault.actor not in self.actors:
            return
        client = self.actors[fault.actor][0].name
        ways = [(client, node.host)] if fault.kind != plans.CUT_FROM else []
        if fault.kind != plans.CUT_TO:
            ways.append((node.host, client))
        for way in ways:
            self.links.cut(*way)
            self._later(fault, lambda way=way: self.links.heal(*way))  # type: ignore[misc]

    def _strike_client(self, fault: PlannedFault) -> None:
        if fault.actor not in self.actors:
            return
        actor, task = self.actors[fault.actor]
        if task.is_done:
            return
        if fault.kind == plans.KILL_CLIENT:
            task.kill()
            actor.client.close()
            self._later(fault, lambda: self._spawn(fault.actor))
            del self.actors[fault.actor]
            return
        task.pause()
        self._later(fault, task.wake)
        if fault.kind == plans.TAKE_OVER:
            self.setting.taken_over.add(actor.name)
            self.retired.append(task)
            self._spawn(fault.actor)

    def heal(self) -> None:
        """End all faults. Brokers that are down start again."""
        self.setting.is_over = True
        self.links.slowness = 1.0
        for source, target in self.links.cuts():
            self.links.heal(source, target)
        for node in self.nodes:
            node.disk.is_full = False
            node.aside_slowness = 1.0
            node.disk.disarm()
        self._start_cut.clear()
        for node in self.nodes:
            if node.disk.has_failed_sync:
                # Partitions that are offline since the failed sync are so until the next start.
                node.crash(power_cut=node.loses_power)


READERS = ("watch", "watch_all", "admin")
