"""A simulation driven by a random seed: brokers, clients, network and disks on one scheduler."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ottla.simulation.clients.actors import ROLES, Actor, Setting, create_topics
from ottla.simulation.clients.noting import Notes
from ottla.simulation.clients.wire import Client, Ground
from ottla.simulation.committed_transactions import CommittedTransactions
from ottla.simulation.env import START_MS
from ottla.simulation.faults import RESTART_MS, InjectedFaults
from ottla.simulation.links import Links
from ottla.simulation.machines import Machines
from ottla.simulation.node import PORT, Node
from ottla.simulation.plan import Plan
from ottla.simulation.replicas import ReplicaChecker
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Task
from ottla.simulation.watch import Watch

TOPICS = {"in": 2, "out": 2, "a": 2, "b": 1, "trimmed": 1}
TOPIC_CONFIGS = {"internal.segment.bytes": "3000"}
START_AGAIN_MS = 500
STOPPING_MS = 60_000
STEPS_BETWEEN = 8
"""Number of calls of the scheduler between two checks in `run_until`."""
MOMENTS_MS = 400
"""All actors start within this time, in ms."""


class World:
    """Simulates one plan, which determines everything that happens by its seed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scheduler = Scheduler(START_MS)
        self.notes = Notes()
        self.setting = Setting(topics=dict(TOPICS), notes=self.notes, budget=plan.transactions, replicas=min(3, plan.brokers))
        self.links = Links(self.scheduler, self._rng("network"))
        self.machines = Machines(plan, self.scheduler, self.links, self._rng, on_crash=self._crashed, on_served=self._served)
        self.nodes = self.machines.brokers
        self.ground = Ground(self.scheduler, self.links, [(node.host, PORT) for node in self.nodes])
        self.reached = self.ground.reached
        self.watch = Watch(self.notes.finding, self.reached, self.notes.identities)
        self.transactions = CommittedTransactions(self.notes.finding, self.reached, self.watch.note_committed)
        self.replicas = ReplicaChecker(self.notes.finding, self.reached, self.transactions, self.machines.in_sync)
        self.actors: dict[int, tuple[Actor, Task]] = {}
        """For each index in the plan's actors: the current process of the client, as actor and task."""
        self.retired: list[Task] = []
        self._instances = [0] * len(plan.actors)
        self.start_cut: dict[int, int] = {}
        self.down_ms: dict[int, int] = {}
        self.is_over = False
        self.disk_has_refused = False
        self.clock_was_set_back = False
        self.steps = 0

    def _rng(self, name: str) -> random.Random:
        # A string is a repeatable seed: `random.Random` uses its characters, not its hash, which differs between processes.
        return random.Random(f"{self.plan.seed}/{name}")

    @property
    def is_cluster(self) -> bool:
        return self.machines.controller is not None

    # simulated time

    def run_until(self, is_over: Callable[[], bool], at_most_ms: float) -> bool:
        """Make due calls until ``is_over`` returns True, at most for this simulated time. Return the last result of ``is_over``."""
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
            if self.is_cluster:
                if not self.steps % STEPS_BETWEEN:
                    self.replicas.check(self.nodes)
                    self.watch.check_acknowledged()
                    self.transactions.check_acknowledged(self.notes.acknowledged)
            else:
                self.watch.check(self.nodes)
        return True

    def run_task(self, task: Task, at_most_ms: float) -> bool:
        return self.run_until(lambda: task.is_done, at_most_ms)

    # starting and stopping servers

    def start(self, node: Node[Any]) -> None:
        if node.env is not None:
            return
        cut = self.start_cut.pop(node.node_id, None)
        if cut is not None:
            node.disk.cut_power_in(cut)
        node.start()

    def _served(self, node: Node[Any]) -> None:
        self.say(f"{node.host} serves, life {node.lives}")

    def _crashed(self, node: Node[Any]) -> None:
        self.say(f"{node.host} is gone: {node.disk.cut_operation or 'from outside'}")
        node.disk.cut_operation = ""
        if node is not self.machines.controller:
            if self.is_cluster:
                self.replicas.crashed(node, self.nodes)
            self.watch.crashed(node, may_lose=node.loses_power and not self.is_cluster)
        if self.is_over:
            return
        down_ms = self.down_ms.pop(node.node_id, START_AGAIN_MS if node.is_starting else RESTART_MS)
        self.scheduler.call_later(down_ms, lambda: self.start(node))

    def stop(self) -> bool:
        """Stop all servers, the brokers first, because their shutdown needs the controller. Returns whether all stop in time."""
        self.is_over = True
        for nodes in (self.machines.brokers, list(self.machines)):
            for node in nodes:
                node.stop()
            if not self.run_until(lambda nodes=nodes: not any(node.env for node in nodes), STOPPING_MS):  # type: ignore[misc]
                return False
        return True

    def say(self, line: str) -> None:
        self.notes.say(self.scheduler.now_ms, line)

    # starting nodes and clients

    def client(self, name: str) -> Client:
        return Client(self.ground, name, self._rng(name))

    def begin(self) -> None:
        """Start the nodes, create topics, schedule actors and faults. Raises AssertionError if topics cannot be created."""
        for node in self.machines:
            self.start(node)
        client = self.client("maker")
        configs = TOPIC_CONFIGS | ({"min.insync.replicas": "2"} if self.setting.replicas > 1 else {})
        made = Task(self.scheduler, create_topics(client, self.setting.topics, configs, self.setting.replicas))
        are_made = self.run_task(made, 60_000)
        assert are_made, "topics cannot be created"
        client.close()
        rng = self._rng("beginnings")
        for place in range(len(self.plan.actors)):
            self.scheduler.call_later(rng.random() * MOMENTS_MS, lambda place=place: self.spawn(place))  # type: ignore[misc]
        faults = InjectedFaults(self)
        for fault in self.plan.faults:
            self.scheduler.call_later(fault.at_ms, lambda fault=fault: faults.trigger(fault))  # type: ignore[misc]

    def spawn(self, place: int) -> None:
        role, name = self.plan.actors[place].split(":")
        assert role in ROLES, f"unknown role {role}"
        self._instances[place] += 1
        client = self.client(f"{name}#{self._instances[place]}")
        actor = Actor(self.setting, client, role, name, client.rng)
        self.actors[place] = (actor, Task(self.scheduler, actor.steps()))

    def are_written(self) -> bool:
        """Whether all writing clients have finished."""
        if len(self.actors) < len(self.plan.actors):
            return False
        return all(task.is_done or actor.role in READERS for actor, task in self.actors.values())

    # ending all faults

    def heal(self) -> None:
        """End all faults. Nodes that are down start at their planned time."""
        self.setting.is_over = True
        self.links.slowness = 1.0
        for source, target in self.links.cuts():
            self.links.heal(source, target)
        for node in self.machines:
            node.wake()
            node.disk.is_full = False
            node.aside_slowness = 1.0
            node.disk.disarm()
        self.start_cut.clear()
        for node in self.machines:
            if node.disk.has_failed_sync:
                # After a failed sync partitions stay offline until the next start.
                node.crash(power_cut=node.loses_power)


READERS = ("watch", "watch_all", "admin", "mover")
