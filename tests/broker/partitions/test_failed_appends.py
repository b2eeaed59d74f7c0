"""Each append of a random history is refused once on a whole broker: nothing changes, and a retry of the request succeeds.

tests/coordinator/test_failed_appends.py tests the coordinators' state machines alone. This module tests the code around them:
handlers, coordinators with their logs, and cluster metadata. A history runs once without refused appends. Then it runs again once
per append, and each run refuses a different append.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from tests.fuzz.state import METADATA, State, diff_text, difference, durable, live, moving
from tests.scenarios.play import perform
from tests.scenarios.world import World, name_of

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
LENGTH = 24
REFUSALS = {
    # Retriable error codes that each API may return if its append is refused.
    "init": {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"},
    "add": {"NOT_COORDINATOR"},
    "add_offsets": {"NOT_COORDINATOR"},
    "produce": {"NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR"},
    "commit": {"NOT_COORDINATOR"},
    "abort": {"NOT_COORDINATOR"},
    "offsets": {"NOT_COORDINATOR"},
    "commit_offsets": {"NOT_COORDINATOR"},
    "delete_offsets": {"NOT_COORDINATOR"},
    "delete_group": {"NOT_COORDINATOR"},
    "join": {"NOT_COORDINATOR"},
    "sync": {"NOT_COORDINATOR"},
    "leave": {"NOT_COORDINATOR"},
    "streams": {"NOT_COORDINATOR"},
    "marker": {"KAFKA_STORAGE_ERROR"},
}
AN_ID_MAY_BE_LOST = {("producer ids",), ("next producer id",), ("log", *METADATA[1:])}
"""Differences that are allowed: a block of producer ids is logged before the record that uses an id. If that record is refused, the
id is never used."""
NOTED_BEFORE_VERIFICATION = "unverified"
"""State that a refused batch may leave. A partition remembers a transactional batch before the coordinator verifies it, as Kafka's
VerificationStateEntry does; the batch that is sent again takes its place."""


def history(seed: int) -> Iterator[str]:
    """Commands that do not depend on any response."""
    rng = random.Random(seed)
    yield from ("topic t partitions=2", "topic u", "A = init x", "B = init y", "join", "sync", "commit_offsets h t=1")
    names, made = iter("abcdefghijklmnopq"), ["t"]
    for _ in range(LENGTH):
        actor, where = rng.choice("AB"), rng.choice(["t", "t/1", "u"])
        newer = rng.random() < 0.5
        which = rng.randrange(15)
        if which < 3:
            if not newer:
                yield f"add {actor} {where}"
            yield f"produce {actor} {where} v={12 if newer else 11}"
        elif which < 5:
            if not newer:
                yield f"add_offsets {actor} g"
            yield f"offsets {actor} g {where}={rng.randrange(99)} v={5 if newer else 3}"
        elif which < 8:
            yield f"{rng.choice(['commit', 'commit', 'abort'])} {actor} v={5 if newer else 4}"
        elif which == 8:
            yield f"{actor} = init {'x' if actor == 'A' else 'y'}"
            # The first InitProducerId aborts an open transaction, and the second one succeeds.
            yield f"{actor} = init {'x' if actor == 'A' else 'y'}"
        elif which == 9:
            yield rng.choice([f"commit_offsets h {where}={rng.randrange(99)}", "delete_offsets h t", "delete_group h"])
        elif which == 10:
            yield rng.choice(["leave", "wait 40000", f"marker {actor} {where} abort"])
        elif which == 11:
            # The static member rejoins after a restart, which causes no rebalance if the group has a generation.
            yield from rng.choice([("join", "sync"), ("join",)])
        elif which == 12:
            made.append(next(names))
            yield f"topic {made[-1]} partitions={rng.randrange(1, 4)} retention.ms={rng.randrange(1, 9)}000000"
        elif which == 13:
            yield rng.choice(
                [
                    f"config {made[-1]} retention.ms={rng.randrange(1, 9)}000000",
                    f"create_partitions {made[-1]} count={rng.randrange(4, 9)}",
                    "broker_config log.retention.ms=7000000",
                    f"delete {made[-1]}" if made[-1] != "t" else "feature transaction.version=2 kind=1",
                ]
            )
        else:
            yield rng.choice(["wait 100", "wait 70000"])


COUNTING = Topology(
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["fail-t"], state_changelog_topics=[TopicInfo(name="fail-counts")])
    ]
)
STREAMS_HISTORY = """
topic t partitions=2
join
sync
streams a join
streams a
wait 200
streams a
streams b join
wait 200
streams a
streams b
streams a tells
streams b tells
streams b leave
wait 200
streams a
streams a tells
wait 70000
streams b join
wait 200
streams b
streams b tells
"""
"""Commands of streams group members and of a static member of a classic group. If an internal topic cannot be created, the next
heartbeat creates it, so epochs may differ."""


class Play:
    """One broker that runs a history. Its disk refuses the append with the number ``refused``."""

    def __init__(self, refused: int | None = None) -> None:
        self.disk = FaultyFilesystem()
        self.appends = 0
        self._refused = refused
        self.was_refused = False
        self.broker = SimulatedBroker(SETTINGS, fs=self.disk).start().with_coordinators()
        self.disk.refuses = self._refuses
        self.world = World(self.broker, "ottla", "fail-")
        self.member_id, self.generation = "", -1
        self.streams_answers: dict[str, StreamsGroupHeartbeatResponse] = {}

    def perform(self, command: str) -> str:
        """Run the command once, without the retries that scenarios make if a coordinator is not available."""
        if command in ("join", "sync", "leave"):
            return str(getattr(self, command)())
        if command.startswith("streams"):
            return self.streams(*command.split()[1:])
        return perform(self.world, command if command.startswith(("topic", "wait")) else f"{command} once")

    def join(self) -> str:
        """Send JoinGroup for the group's only member, which is static and sends no member id."""
        request = JoinGroupRequest(
            group_id="fail-g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"subscription")],
        )
        answer = self.world.call(request, 7)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return name_of(answer.error_code)

    def sync(self) -> str:
        request = SyncGroupRequest(
            group_id="fail-g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id="i",
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"assignment")],
        )
        answer = self.world.call(request, 4)
        return f"{name_of(answer.error_code)}{' assigned' * bool(answer.assignment)}"

    def streams(self, member: str, how: str = "") -> str:
        """Send a heartbeat of a streams group member that owns the tasks of its last response."""
        known = StreamsGroupHeartbeatResponse() if how == "join" else self.streams_answers[member]
        request = StreamsGroupHeartbeatRequest(
            group_id="fail-app",
            member_id=member,
            member_epoch=-1 if how == "leave" else known.member_epoch,
            rebalance_timeout_ms=30_000,
            process_id=member,
            topology=COUNTING if how == "join" else None,
            active_tasks=known.active_tasks or [],
            standby_tasks=known.standby_tasks or [],
            warmup_tasks=known.warmup_tasks or [],
        )
        answer: StreamsGroupHeartbeatResponse = self.world.call(request, 1)
        if not answer.error_code:
            if answer.active_tasks is None:
                answer.active_tasks, answer.standby_tasks, answer.warmup_tasks = known.active_tasks, [], []
            self.streams_answers[member] = answer
        tasks = sum(len(one.partitions) for one in answer.active_tasks or ())
        return name_of(answer.error_code) + (f" {tasks} tasks" if how == "tells" else "")

    def leave(self) -> str:
        request = LeaveGroupRequest(group_id="fail-g", members=[MemberIdentity(member_id=self.member_id, group_instance_id="i")])
        return name_of(self.world.call(request, 4).members[0].error_code)

    def _refuses(self, number: int, kind: str, path: str) -> bool:
        if kind != "append" or not path.endswith(".log"):
            return False
        self.appends += 1
        refuses = self.appends - 1 == self._refused
        self.was_refused |= refuses
        return refuses

    def answer(self, command: str) -> str:
        """Return the final response. If the command made a single append and it was refused, nothing may have changed."""
        before, appends, was_refused = live(self.broker.broker), self.appends, self.was_refused
        first_answer = self.perform(command)
        if was_refused or not self.was_refused:
            return first_answer
        verb = command.rpartition(" = ")[2].partition(" ")[0]
        if verb in REFUSALS and first_answer.partition(" ")[0] not in REFUSALS[verb]:
            # The refused append was a marker, a completion or periodic work, which the broker retries without the client.
            assert first_answer == "" or first_answer.startswith("NONE") or self.appends > appends + 1, (command, first_answer)
            return first_answer
        if self.appends == appends + 1:
            after = live(self.broker.broker)
            changed = {key for key in difference(before, after) - AN_ID_MAY_BE_LOST if key[0] != NOTED_BEFORE_VERIFICATION}
            assert not changed, f"{command} was refused ({first_answer}) and has changed\n" + diff_text(changed, before, after)
        return self.perform(command)

    def end(self) -> State:
        """Return the state when no work is pending. After a kill and a restart, the logs must restore the same state."""
        self.broker.sleep(80_000)
        self.world.forget_connection()
        before, unsettled = durable(self.broker.broker), moving(self.broker.broker)
        assert not unsettled, unsettled
        self.broker.restart(kill=True)
        after = durable(self.broker.broker)
        lost = {key for key in difference(before, after) if key[0] not in ("log",)}
        assert not lost, diff_text(lost, before, after)
        self.world.close()
        self.broker.close()
        assert self.broker.bugs == 0
        return {key: value for key, value in after.items() if key[0] in ("offsets", "transaction", "configs", "open")}


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2))
def test_coordinator_state_equals_its_log_after_the_failure_of_any_append(seed: int) -> None:
    refuse_each(list(history(seed)))


@pytest.mark.full
def test_streams_group_state_equals_its_log_after_the_failure_of_any_append() -> None:
    refuse_each(STREAMS_HISTORY.strip().splitlines())


def refuse_each(commands: Iterable[str]) -> None:
    smooth = Play()
    answers = [smooth.answer(command) for command in commands]
    smooth.end()
    for refused in range(smooth.appends):
        play = Play(refused)
        play_answers = [play.answer(command) for command in commands]
        play.end()
        assert play.was_refused, refused
        assert play_answers == answers, refused
