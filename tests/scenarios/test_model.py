"""Random requests to the brokers get the responses that the reference model expects."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.java_hash import partition_for
from ottla.protocol.records import read_records
from ottla.simulation.broker import SimulatedBroker
from ottla.storage.log import Log
from ottla.storage.recovery import open_log
from tests.scenarios import play as player
from tests.scenarios.brokers import SET_UPS, Target, Wire
from tests.scenarios.model import ABORTED, COMMITTED, Identity, Model
from tests.scenarios.views import PARTITIONS, TRANSACTION_TOPIC, visible
from tests.scenarios.world import Actor, World
from tests.support.shared_kafka import shared_kafka

pytestmark = pytest.mark.heavy

TIMEOUT_MS = 60_000
NAMES = st.sampled_from(["x", "y"])
WHERE = st.sampled_from(["t", "u"])
AGE = st.integers(0, 3)
"""Age of the identity that a request uses: 0 is the newest identity that the broker assigned."""
BEHIND = st.sampled_from([-1, 0, 0, 1, 3])
"""Difference between the group member's epoch and the member epoch that a request uses."""


class Protocol(RuleBasedStateMachine):
    """Each example uses its own two transactional ids, two partitions and group.

    With a simulated broker it also starts a new broker.

    A broker shared by all examples would have more topics after each, so its restarts and timers would take longer and longer.
    """

    target: str
    find_broker: Callable[[], Target]

    def __init__(self) -> None:
        super().__init__()
        self.broker = type(self).find_broker()
        self.simulated = self.broker if isinstance(self.broker, SimulatedBroker) else None
        self.world = World(self.broker, self.target, f"model-{uuid.uuid4().hex[:8]}-")
        self.model = Model(["t", "u"], TIMEOUT_MS, is_ottla=self.target != "kafka")
        self.given: dict[str, list[Identity]] = {"x": [], "y": []}
        self.sequences: dict[tuple[str, int, int], int] = {}
        self.values = 0
        for topic in ("t", "u"):
            self.ask(f"topic {topic}")
        for coordinator in ("x", "y", "g group"):
            self.ask(f"coordinator {coordinator}")
        self.ask("committed g t")
        assert self.ask("M = stream g reads=t") == "NONE e2 0_0"

    def teardown(self) -> None:
        self.world.close()
        if self.simulated is not None:
            self.simulated.close()
            assert self.simulated.bugs == 0

    def ask(self, command: str) -> str:
        return player.perform(self.world, command)

    def identity_of(self, name: str, age: int) -> Identity:
        known = self.given[name]
        identity = known[max(len(known) - 1 - age, 0)] if known else (4_242_424, 0)
        self.world.actors["A"] = Actor("A", self.world.real(name), *identity)
        return identity

    def adopt(self, name: str, answer: str | Identity, broker_answer: str) -> None:
        """Compare a response, which may contain a new producer identity, with the model's response."""
        if isinstance(answer, str):
            assert broker_answer == answer
            return
        assert broker_answer == f"NONE {self.world.pid(answer[0])} e{answer[1]}"
        if answer not in self.given[name]:
            self.given[name].append(answer)

    @rule(name=NAMES)
    def init(self, name: str) -> None:
        self.world.actors.pop("N", None)
        answer = self.ask(f"N = init {name} timeout={TIMEOUT_MS}")
        new = self.world.actors["N"].pid if "N" in self.world.actors else -1
        self.adopt(name, self.model.init(name, None, new, self.broker.now_ms()), answer)

    @precondition(lambda self: any(self.given.values()))
    @rule(name=NAMES, age=AGE)
    def recover(self, name: str, age: int) -> None:
        if not self.given[name]:
            return
        identity = self.identity_of(name, age)
        answer = self.ask(f"init {name} as=A timeout={TIMEOUT_MS}")
        self.adopt(name, self.model.init(name, identity, -1, self.broker.now_ms()), answer)

    @rule(name=NAMES, where=WHERE, age=AGE)
    def add(self, name: str, where: str, age: int) -> None:
        pid, epoch = self.identity_of(name, age)
        assert self.ask(f"add A {where}") == self.model.add(name, pid, epoch, where, self.broker.now_ms())

    @rule(name=NAMES, where=WHERE, age=AGE)
    def verify(self, name: str, where: str, age: int) -> None:
        pid, epoch = self.identity_of(name, age)
        assert self.ask(f"verify A {where}") == self.model.verify(name, pid, epoch, where)

    @rule(name=NAMES, where=WHERE, age=AGE, newer=st.booleans(), slip=st.sampled_from([0, 0, 0, 0, 1, -1]))
    def produce(self, name: str, where: str, age: int, newer: bool, slip: int) -> None:
        pid, epoch = self.identity_of(name, age)
        known = self.model.partitions[where].producers.get(pid)
        following = known.last + 1 if known is not None and known.epoch == epoch else 0
        sequence = max(following + slip, 0)
        self.values += 1
        self.world.actors["A"].written = self.values - 1
        now_ms = self.broker.now_ms()
        answer = self.ask(f"produce A {where} seq={sequence} v={12 if newer else 11}")
        assert answer == self.model.produce(name, pid, epoch, where, sequence, f"a{self.values}", now_ms, newer=newer)

    @rule(name=NAMES, age=AGE, commit=st.booleans(), newer=st.booleans())
    def end(self, name: str, age: int, commit: bool, newer: bool) -> None:
        pid, epoch = self.identity_of(name, age)
        answer = self.ask(f"{'commit' if commit else 'abort'} A v={5 if newer else 4} stay")
        self.adopt(name, self.model.end(name, pid, epoch, commit=commit, newer=newer), answer)

    @rule(name=NAMES, age=AGE)
    def add_offsets(self, name: str, age: int) -> None:
        pid, epoch = self.identity_of(name, age)
        assert self.ask("add_offsets A g") == self.model.add(name, pid, epoch, Model.OFFSETS, self.broker.now_ms())

    @rule(name=NAMES, age=AGE, offset=st.integers(0, 99), newer=st.booleans(), behind=st.one_of(st.none(), BEHIND))
    def commit_offset(self, name: str, age: int, offset: int, newer: bool, behind: int | None) -> None:
        pid, epoch = self.identity_of(name, age)
        now_ms = self.broker.now_ms()
        member_epoch = None if behind is None else self.member_epoch(behind)
        member = "" if member_epoch is None else f" member=M gen={member_epoch}"
        answer = self.ask(f"offsets A g t={offset} v={5 if newer else 3}{member}")
        assert answer == self.model.commit_offset(name, pid, epoch, offset, now_ms, newer=newer, member_epoch=member_epoch)

    def member_epoch(self, behind: int) -> int:
        return max(self.model.offsets.member_epoch - behind, 0)

    @rule(offset=st.integers(0, 99), behind=BEHIND)
    def commit_plainly(self, offset: int, behind: int) -> None:
        member_epoch = self.member_epoch(behind)
        answer = self.ask(f"commit_offsets g t={offset} v=9 member=M gen={member_epoch}")
        assert answer == self.model.commit_plainly(offset, member_epoch)

    @rule()
    def change_member(self) -> None:
        assert self.ask(f"M = stream g rack=r{self.model.offsets.member_epoch}") == self.model.change_member()

    @precondition(lambda self: any(self.given.values()))
    @rule(name=NAMES, age=AGE, where=WHERE, commit=st.booleans())
    def admin_marker(self, name: str, age: int, where: str, commit: bool) -> None:
        if not self.given[name]:
            return
        pid, epoch = self.identity_of(name, age)
        answer = self.ask(f"marker A {where} {'commit' if commit else 'abort'} coordinator=0")
        assert answer == self.model.admin_marker(pid, epoch, where, COMMITTED if commit else ABORTED)

    @rule(where=WHERE)
    def fetch(self, where: str) -> None:
        partition = self.model.partitions[where]
        real = self.world.partition(where)
        assert visible(self.world, real, committed=True) == partition.committed()
        assert visible(self.world, real, committed=False) == partition.everything()
        end = len(partition.log)
        assert self.ask(f"ends {where}") == f"start=0 lso={partition.last_stable_offset} end={end}"

    @rule(stable=st.booleans())
    def fetch_offset(self, stable: bool) -> None:
        assert self.ask(f"committed g t{' stable' if stable else ''}") == self.model.offset(stable=stable)

    @rule(name=NAMES)
    def describe(self, name: str) -> None:
        answer = self.ask(f"describe {name}")
        known = self.model.ids.get(name)
        if known is None:
            assert answer == "TRANSACTIONAL_ID_NOT_FOUND"
        else:
            assert answer.startswith(f"{known.state} {self.world.pid(known.pid)} e{known.epoch}")

    @precondition(lambda self: self.simulated is not None)
    @rule(kill=st.booleans())
    def crash(self, kill: bool) -> None:
        self.ask("kill" if kill else "restart")
        self.model.crash()

    @precondition(lambda self: self.simulated is not None)
    @rule(ms=st.sampled_from([1_000, 30_000, TIMEOUT_MS + 1_000]))
    def tick(self, ms: int) -> None:
        self.broker.sleep(ms)
        self.model.tick(self.broker.now_ms())


def _same_after_reload(machine: Protocol) -> None:
    """Check that the coordinator and the partitions' producer state are the same after a reload from the log."""
    simulated = machine.simulated
    assert simulated is not None
    broker = simulated.broker
    for name in machine.given:
        real = machine.world.real(name)
        if TRANSACTION_TOPIC not in broker.cluster.state.topics:
            return
        live = broker.transactions.shard_of(real)
        again = TransactionShard(live.partition, live.config, live.transaction_version)
        log = broker.partitions.get(TRANSACTION_TOPIC, partition_for(real, PARTITIONS)).log
        for _, _, raw in (batch for segment in log.segments for batch in segment.scan()):
            for record in read_records(raw):
                again.replay(LogRecord(record.key, record.value))
        assert {i: m.logged() for i, m in live.ids.items()} == again.ids
    for topic in ("t", "u"):
        log = broker.partitions.get(machine.world.real(topic), 0).log
        copy = Log(simulated.fs, log.directory, log.topic, 0, log.config)
        open_log(copy, simulated.now_ms(), clean=False)
        assert copy.last_stable_offset == log.last_stable_offset
        assert copy.log_end_offset == log.log_end_offset
        assert copy.producers.open_txns == log.producers.open_txns
        assert {p: (e.epoch, e.last_sequence) for p, e in copy.producers.entries.items()} == {
            p: (e.epoch, e.last_sequence) for p, e in log.producers.entries.items()
        }


def machine_for(target: str, find_broker: Callable[[], Target]) -> type[Protocol]:
    machine = type("Protocol", (Protocol,), {"find_broker": staticmethod(find_broker), "target": target})
    if target == "ottla":
        from hypothesis.stateful import invariant

        machine._same = invariant()(_same_after_reload)  # type: ignore[attr-defined]
    return machine


def run(target: str, find_broker: Callable[[], Target], examples: int, steps: int) -> None:
    options = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    run_state_machine_as_test(machine_for(target, find_broker), settings=options)


def simulated() -> SimulatedBroker:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200", **SET_UPS["model"].settings}
    return SimulatedBroker(settings).start()


def test_ottla_responds_to_random_transaction_commands_as_the_model_expects() -> None:
    run("ottla", simulated, 30, 50)


@pytest.mark.full
def test_ottla_responds_to_many_random_transaction_commands_as_the_model_expects() -> None:
    run("ottla", simulated, 200, 50)


@pytest.mark.full
@pytest.mark.wire
@pytest.mark.java
def test_kafka_responds_to_random_transaction_commands_as_the_model_expects() -> None:
    # This broker must never be restarted: the admin's markers have the epoch of the first coordinator.
    broker = Wire(shared_kafka())
    run("kafka", lambda: broker, 50, 50)
