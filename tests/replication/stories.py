"""Random histories of replicating brokers, determined by a seed.

They contain kills, network partitions and elections. Invariants are checked throughout.
"""

from __future__ import annotations

import random
from collections import Counter

from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import ProduceResponse
from ottla.storage.log import Log
from tests.replication.brokers import ReplicaBrokersWorld, ReplicaServer
from tests.support.logs import stored

POWER_EVERY = 4
"""Every fourth seed uses ``ottla.durability=power``. Its crashes are power cuts instead of killed processes."""


class Anomaly(AssertionError):
    """Raised when a guarantee of replication is violated."""


def held(condition: object, what: str) -> None:
    if not condition:
        raise Anomaly(what)


class Story:
    """A history determined by a seed.

    With ``elects_out_of_sync`` the controller has a fault: it elects replicas that are not in sync.
    """

    def __init__(self, seed: int, *, elects_out_of_sync: bool = False) -> None:
        self.rng = random.Random(f"{seed}/story")
        self.has_power_cuts = seed % POWER_EVERY == 0
        settings = {"replica.lag.time.max.ms": "400", "replica.fetch.wait.max.ms": "100"}
        if self.has_power_cuts:
            settings["ottla.durability"] = "power"
        self.world = ReplicaBrokersWorld(seed, min_in_sync=self.rng.choice([1, 2]), settings=settings)
        self.elects_out_of_sync = elects_out_of_sync
        self.committed: dict[int, bytes] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.seen: Counter[str] = Counter()
        self.sent = 0
        self._shown: dict[ReplicaServer, int] = {}
        self._checked: dict[ReplicaServer, tuple[int, int, int]] = {}
        self.world.settle(500)
        for node in self.world.nodes.values():
            node.aside_slowness = self.rng.choice([1.0, 10.0])
        self.world.links.slowness = self.rng.choice([1.0, 5.0, 20.0])

    def play(self, steps: int) -> Story:
        for _ in range(steps):
            self._step()
            self._wait(self.rng.random() * 40)
        self._heal()
        return self

    def _step(self) -> None:
        rng, world, roll = self.rng, self.world, self.rng.random()
        up = list(world.up)
        if roll < 0.50 and up:
            self._produce_some(rng.choice(up))
        elif roll < 0.78 and up:
            world.tell(rng.choice(up))
        elif roll < 0.83:
            self._elect()
        elif roll < 0.87 and up:
            self._kill(rng.choice(up))
        elif roll < 0.88:
            self._kill_all()
        elif roll < 0.93:
            source, target = rng.sample(list(world.nodes), 2)
            self._cut(world.nodes[source].host, world.nodes[target].host)
        elif roll < 0.95:
            self._silence_controller()
        elif roll < 0.97:
            self._wait(1_500)

    def _produce_some(self, broker_id: int) -> None:
        """Send up to three batches at short intervals, so that followers' logs end at different offsets."""
        for _ in range(self.rng.randrange(1, 4)):
            self.world.scheduler.call_later(self.rng.random() * 4, lambda: self._produce(broker_id))

    def _produce(self, broker_id: int) -> None:
        if not self.world.nodes[broker_id].is_up:
            return
        self.sent += 1
        value = b"value %d" % self.sent

        def answered(response: ProduceResponse) -> None:
            answer = response.responses[0].partition_responses[0]
            self.seen[f"answered {Code(answer.error_code).name}"] += 1
            if answer.error_code == Code.NONE:
                self.acknowledged[answer.base_offset] = value
                for broker_id in self.world.up:
                    self._check_in_sync(broker_id, {answer.base_offset: value})
                if self.has_power_cuts and self.rng.random() < 0.05:
                    self.world.scheduler.call_later(0, self._kill_all)

        with self.world.nodes[broker_id].at_work():
            self.world.server(broker_id).produce(value, answered, timeout_ms=self.rng.choice([100, 1_000]))

    def _elect(self) -> None:
        world = self.world
        before = world.registration()
        among = before.replicas if self.elects_out_of_sync else before.isr
        live = [b for b in among if not world.state.registrations.brokers[b].is_fenced and b != before.leader]
        if live and before.leader >= 0:
            self.seen["moved the leader"] += 1
            world.move_leader(self.rng.choice(live))
            for broker_id in world.nodes:
                world.scheduler.call_later(self.rng.random() * 30, lambda broker_id=broker_id: self._tell(broker_id))  # type: ignore[misc]

    def _tell(self, broker_id: int) -> None:
        if self.world.nodes[broker_id].is_up:
            self.world.tell(broker_id)

    def _kill_all(self) -> None:
        self.seen["all killed at once"] += 1
        for broker_id in self.world.up:
            self._kill(broker_id)

    def _kill(self, broker_id: int) -> None:
        world, rng = self.world, self.rng
        self.seen["a leader killed" if world.registration().leader == broker_id else "a follower killed"] += 1
        world.kill(broker_id, power_cut=self.has_power_cuts)
        down_ms = rng.random() * 2_000
        world.scheduler.call_later(rng.random() * down_ms, lambda: world.fence(broker_id))
        world.scheduler.call_later(down_ms, lambda: self._start(broker_id))

    def _start(self, broker_id: int) -> None:
        if not self.world.nodes[broker_id].is_up:
            self.world.start(self.world.nodes[broker_id])

    def _cut(self, source: str, target: str) -> None:
        links = self.world.links
        links.cut(source, target)
        self.world.scheduler.call_later(self.rng.random() * 3_000, lambda: links.heal(source, target))

    def _silence_controller(self) -> None:
        self.world.answers_controller = False

        def speak() -> None:
            self.world.answers_controller = True

        self.world.scheduler.call_later(self.rng.random() * 1_000, speak)

    def _wait(self, ms: float) -> None:
        scheduler = self.world.scheduler
        end_ms = scheduler.now_ms + ms
        while scheduler.now_ms < end_ms:
            # The simulated clock counts whole milliseconds, so each step takes at least one millisecond.
            scheduler.advance(max(1, min(5, int(end_ms - scheduler.now_ms))))
            self.check()

    def _heal(self) -> None:
        """End all faults, and check that all replicas then have the same log with every acknowledged record."""
        world = self.world
        world.links.slowness = 1.0
        self._wait(4_000)
        assert len(world.up) == len(world.nodes)
        world.answers_controller = True
        if world.registration().leader < 0:
            world.move_leader(world.registration().isr[0])
        self.sent += 1
        for _ in range(12):
            world.tell_all()
            self._wait(500)
        self.check()
        logs = [[raw for _, raw in stored(self._log(broker_id))] for broker_id in world.nodes]
        held(all(log == logs[0] for log in logs), "the replicas are not one in the end")
        registration = world.registration()
        held(set(registration.isr) == set(registration.replicas), f"only {registration.isr} are in sync in the end")
        log = self._log(registration.leader)
        held(log.high_watermark == log.log_end_offset, f"{log.high_watermark} of {log.log_end_offset} is committed in the end")
        lies = b"".join(logs[0])
        for value in self.acknowledged.values():
            held(value in lies, f"{value!r} was acknowledged, and is not there in the end")

    def _log(self, broker_id: int) -> Log:
        return self.world.partition(broker_id).log

    def check(self) -> None:
        for broker_id, server in self.world.up.items():
            partition = server.partitions.known("t", 0)
            held(not server.unexpected_errors, f"{broker_id} has a bug")
            if partition is not None:
                log = partition.log
                state = (log.log_end_offset, log.high_watermark, log.truncations)
                if self._checked.get(server) != state:
                    self._checked[server] = state
                    self._check_log(broker_id, server, log)

    def _check_log(self, broker_id: int, server: ReplicaServer, log: Log) -> None:
        if log.truncations:
            self.seen["truncated"] = max(self.seen["truncated"], log.truncations)
        self._check_in_sync(broker_id, self.acknowledged)
        shown = self._shown.get(server, 0)
        held(log.high_watermark >= shown, f"{broker_id}: the high watermark goes back from {shown} to {log.high_watermark}")
        self._shown[server] = log.high_watermark
        for header, raw in stored(log):
            # With power cuts, a batch may be committed before it is synced and then be lost. It is acknowledged only after the
            # sync.
            if header.next_offset <= log.high_watermark and not self.has_power_cuts:
                known = self.committed.setdefault(header.base_offset, raw)
                held(known == raw, f"{broker_id} shows another batch at {header.base_offset} than was committed")

    def _check_in_sync(self, broker_id: int, acknowledged: dict[int, bytes]) -> None:
        """Check that an in-sync replica has every acknowledged record, because the controller may elect it at any time."""
        if broker_id not in self.world.registration().isr:
            return
        partition = self.world.server(broker_id).partitions.known("t", 0)
        if partition is not None:
            lies = {header.base_offset: raw for header, raw in stored(partition.log)}
            for base_offset, value in acknowledged.items():
                held(
                    value in lies.get(base_offset, b""), f"{broker_id} is in sync, and lacks what was acknowledged at {base_offset}"
                )
