"""Measures consumer groups of KIP-848: ``python -m benchmarks.groups [--members 1000] [--groups 10000] [--kafka]``.

One client process has all members, which send heartbeats at the broker's interval, evenly spread. First all members are in one
group and own one partition each; then each member has its own group, which reads a topic of four partitions.

The latency of a heartbeat is measured by another process with twenty members, because in the client process a response waits until
other responses are read. The client process has a low priority, as if it were on another machine. A rebalance has settled when
every partition has one owner and all members have the newest epoch.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.brokers import Subject, cpu_s, memory_mib
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support import oracle
from tests.support.raw_client import RawClient

TOPIC = "t"
SMALL_TOPIC, SMALL_PARTITIONS = "small", 4
"""The topic of the many groups. It has few partitions, like most topics on a laptop."""
HEARTBEAT, VERSION = 68, 1
FIRST_RETRY_S = 0.1
SETTLED_WITHIN_S = 60.0
PROBES = 20
"""Number of members in the measuring process."""
PROBE_SETTLES_S = 2.0
LOW_PRIORITY = 15
SETTINGS = {"group.consumer.max.size": "100000"}
KAFKA_SETTINGS = {"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "500"}
"""Settings of Apache Kafka with ottla's default heartbeat interval."""
CONNECTIONS = 1_000
"""Maximum number of connections that the members of the many groups share."""
INTERVAL_MS = 500
"""Heartbeat interval of the members, in ms."""
OWN_GROUP_INTERVAL_MS = 5_000
"""Heartbeat interval of the many groups' members, in ms: Kafka's default. With ottla's shorter default the client would be the
bottleneck."""


class Link:
    """A connection that sends one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @classmethod
    async def to(cls, bootstrap: str) -> Link:
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, frame: bytes) -> tuple[bytes, float]:
        """Return the frame of the response, and the time until the response in seconds."""
        async with self._turn:
            sent = time.perf_counter()
            self._writer.write(frame)
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            raw = await self._reader.readexactly(size)
            return raw, time.perf_counter() - sent

    def close(self) -> None:
        self._writer.close()


@dataclass
class Member:
    """A member of a group. It reports its last assignment as its owned partitions."""

    group_id: str
    link: Link
    latencies_s: list[float]
    topic: str = TOPIC
    interval_ms: int | None = None
    """Heartbeat interval in ms; None for the interval in the broker's response."""
    member_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: dict[bytes, list[int]] = field(default_factory=dict)
    next_part: float = field(default_factory=random.random)
    """Fraction of the interval until the next heartbeat."""
    _asked: ConsumerGroupHeartbeatRequest | None = None
    _frame: bytes = b""
    _raw: bytes = b""
    _answer: ConsumerGroupHeartbeatResponse | None = None

    async def live(self) -> None:
        """Join, and send heartbeats until cancelled. After a new assignment a heartbeat is sent at once."""
        while True:
            answer = await self._beat(is_first=self.epoch == 0)
            if answer.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS or answer.error_code == Code.NOT_COORDINATOR:
                await asyncio.sleep(FIRST_RETRY_S)
                continue
            assert answer.error_code == Code.NONE, (answer.error_code, answer.error_message)
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}
                continue
            part, self.next_part = self.next_part, 1.0
            await asyncio.sleep(part * (self.interval_ms or answer.heartbeat_interval_ms) / 1_000)

    async def leave(self) -> None:
        self.epoch, self.owned = -1, {}
        await self._beat(is_first=False)

    async def _beat(self, *, is_first: bool) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat. A request or response that equals the last is not encoded or decoded again, to save time."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=300_000 if is_first else -1,
            subscribed_topic_names=[self.topic] if is_first else None,
            topic_partitions=[TopicPartitions(topic_id=t, partitions=p) for t, p in self.owned.items()],
        )
        if request != self._asked:
            self._asked, self._frame = request, bytes(request_frame(HEARTBEAT, VERSION, 1, "bench", request))
        raw, took_s = await self.link.ask(self._frame)
        if self._answer is None or raw != self._raw:
            self._raw, self._answer = raw, decode_response_frame(HEARTBEAT, VERSION, raw)[1]
        self.latencies_s.append(took_s)
        return self._answer


class Members:
    """The running group members and their tasks."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self._tasks: dict[str, tuple[Member, asyncio.Task[None]]] = {}

    def add(self, member: Member) -> None:
        self._tasks[member.member_id] = (member, asyncio.create_task(member.live()))

    def __len__(self) -> int:
        return len(self._tasks)

    async def remove_one(self) -> None:
        member, task = self._tasks.pop(next(iter(self._tasks)))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await member.leave()

    def are_settled(self, partitions: int) -> bool:
        members = [member for member, _ in self._tasks.values()]
        if len({member.epoch for member in members}) != 1:
            return False
        owned = [(t, p) for member in members for t, some in member.owned.items() for p in some]
        return len(owned) == len(set(owned)) == partitions

    async def settle(self, partitions: int) -> float:
        """Wait until the group has settled, and return the elapsed seconds. Raises TimeoutError, or the error of a member."""
        began = time.perf_counter()
        while not self.are_settled(partitions):
            for _, task in self._tasks.values():
                if task.done():
                    task.result()
            if time.perf_counter() - began > SETTLED_WITHIN_S:
                raise TimeoutError(f"not settled after {SETTLED_WITHIN_S:.0f} s")
            await asyncio.sleep(0.005)
        return time.perf_counter() - began

    async def out_of_step(self, interval_ms: int) -> None:
        """Spread the heartbeats over the interval again. After a rebalance, all members send at the same time."""
        while any(member.epoch == 0 for member, _ in self._tasks.values()):
            self.check()
            await asyncio.sleep(0.1)
        for member, _ in self._tasks.values():
            member.next_part = random.random()
        await asyncio.sleep(2 * interval_ms / 1_000)

    def check(self) -> None:
        for _, task in self._tasks.values():
            if task.done():
                task.result()

    async def end(self) -> None:
        for _, task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._tasks.values()), return_exceptions=True)


def _percentiles(latencies_s: list[float]) -> str:
    cuts = statistics.quantiles(latencies_s, n=100)
    return f"p50 {cuts[49] * 1_000:.2f} ms, p99 {cuts[98] * 1_000:.2f} ms, longest {max(latencies_s) * 1_000:.1f} ms"


async def _probe(bootstrap: str, group_id: str, topic: str, seconds: float) -> str:
    """Return the latency of heartbeats of a few members in an otherwise idle process."""
    members = Members()
    links = [await Link.to(bootstrap) for _ in range(PROBES)]
    for link in links:
        members.add(Member(group_id, link, members.latencies_s, topic))
    await asyncio.sleep(PROBE_SETTLES_S)
    members.latencies_s.clear()
    await asyncio.sleep(seconds)
    members.check()
    answer = _percentiles(members.latencies_s)
    while len(members):
        await members.remove_one()
    for link in links:
        link.close()
    return answer


@dataclass
class Probe:
    """Runs `_probe` in another process, which starts to measure when it reads a line from stdin."""

    process: Process

    @classmethod
    async def of(cls, bootstrap: str, group_id: str, topic: str, seconds: float) -> Probe:
        arguments = ("--probe", bootstrap, group_id, topic, "--seconds", str(seconds))
        return cls(
            await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.groups", *arguments, stdin=PIPE, stdout=PIPE)
        )

    async def answer(self) -> str:
        out, _ = await self.process.communicate(b"\n")
        if self.process.returncode:
            raise RuntimeError("the process of the probes has failed")
        return out.decode().strip()


async def _steady(subject: Subject, members: Members, probe: Probe) -> tuple[float, str]:
    """Return the heartbeats per second, and a text with the probes' latency and the broker's processor time."""
    members.latencies_s.clear()
    before_s = cpu_s(subject.pid)
    began = time.perf_counter()
    probed = await probe.answer()
    members.check()
    lasted_s = time.perf_counter() - began
    used = (cpu_s(subject.pid) - before_s) / lasted_s
    return len(members.latencies_s) / lasted_s, f"{probed}; {used:.0%} of a core"


async def _one_group(subject: Subject, count: int, probe: Probe, progress: Progress) -> list[tuple[str, str]]:
    task = progress.add_task(f"one group of {count:,} members", total=count)
    members = Members()
    links = []
    for _ in range(count):
        links.append(await Link.to(subject.bootstrap))
        progress.advance(task)
    for link in links:
        members.add(Member("one", link, members.latencies_s))
    rows = [(f"{count:,} members join at once: settled after", f"{await members.settle(count):.2f} s")]
    await members.out_of_step(INTERVAL_MS)
    rate, took = await _steady(subject, members, probe)
    rows.append((f"heartbeats of {count:,} members, {rate:,.0f} a second", took))
    await members.settle(count)
    members.latencies_s.clear()
    await members.remove_one()
    rows.append(("one leaves: settled after", f"{await members.settle(count):.2f} s"))
    newcomer = await Link.to(subject.bootstrap)
    members.add(Member("one", newcomer, members.latencies_s))
    rows.append(("one joins: settled after", f"{await members.settle(count):.2f} s"))
    rows.append(("heartbeats while these settled", _percentiles(members.latencies_s)))
    await members.end()
    for link in [*links, newcomer]:
        link.close()
    return rows


async def _many_groups(subject: Subject, count: int, probe: Probe, progress: Progress) -> list[tuple[str, str]]:
    task = progress.add_task(f"{count:,} groups of one member", total=count)
    before_mib = memory_mib(subject.pid)
    members = Members()
    links = [await Link.to(subject.bootstrap) for _ in range(min(count, CONNECTIONS))]
    began = time.perf_counter()
    for at in range(count):
        # Start the members evenly over the interval, so that their heartbeats are spread evenly.
        await asyncio.sleep(max(0.0, began + at * OWN_GROUP_INTERVAL_MS / 1_000 / count - time.perf_counter()))
        link = links[at % len(links)]
        members.add(Member(f"group-{at}", link, members.latencies_s, SMALL_TOPIC, OWN_GROUP_INTERVAL_MS))
        progress.advance(task)
    await members.out_of_step(OWN_GROUP_INTERVAL_MS)
    rate, took = await _steady(subject, members, probe)
    rows = [
        (f"{count:,} groups of a member each, {rate:,.0f} heartbeats a second", took),
        (f"memory for {count:,} groups", f"{memory_mib(subject.pid) - before_mib:.0f} MiB"),
    ]
    await members.end()
    for link in links:
        link.close()
    return rows


def _prepare(subject: Subject, partitions: int) -> None:
    with RawClient(subject.bootstrap) as client:
        counts = {TOPIC: partitions, SMALL_TOPIC: SMALL_PARTITIONS}
        topics = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in counts.items()]
        answer = client.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        assert all(topic.error_code == Code.NONE for topic in answer.topics), answer
        oracle.coordinator_known(client, "one", oracle.GROUP)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long what is steady is measured")
    parser.add_argument("--kafka", action="store_true", help="ask Apache Kafka, told to have members come as often")
    parser.add_argument("--probe", nargs=3, metavar=("BOOTSTRAP", "GROUP", "TOPIC"), help="be the process that measures")
    options = parser.parse_args()
    if options.probe is not None:
        bootstrap, group_id, topic = options.probe
        sys.stdin.readline()
        print(uvloop.run(_probe(bootstrap, group_id, topic, options.seconds)))
        return 0
    console = Console(width=160)
    kind = "kafka" if options.kafka else "ottla"
    settings = SETTINGS | (KAFKA_SETTINGS if options.kafka else {})
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as root, Progress(console=console) as progress:
        subject = Subject(kind, Path(root), settings)
        try:
            _prepare(subject, options.members)

            async def ask() -> list[tuple[str, str]]:
                wanted = (("one", TOPIC), ("probed", SMALL_TOPIC))
                one, many = [await Probe.of(subject.bootstrap, group, topic, options.seconds) for group, topic in wanted]
                os.nice(LOW_PRIORITY)
                rows = await _one_group(subject, options.members, one, progress)
                return rows + await _many_groups(subject, options.groups, many, progress)

            rows = uvloop.run(ask())
        finally:
            subject.stop()
    table = Table(title=f"consumer groups of {kind}", title_justify="left")
    table.add_column("what")
    table.add_column("took", justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
