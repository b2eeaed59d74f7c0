"""Plays many seeds on all cores: collects findings and rare states, and shrinks failing plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial

import msgspec

from ottla.simulation.judging import Judgement, judge
from ottla.simulation.plan import CUT, CUT_FROM, CUT_TO, Plan, draw

CHUNK = 10
"""Number of seeds that a process plays before it reports."""
MAX_FAILED = 20
"""Number of failing seeds after which no further seeds are played."""
SHRINKING_RUNS = 400
RARE = (
    "a batch behind one that was lost is refused",
    "a clean stop",
    "a commit whose outcome was unknown and is aborted",
    "a commit whose outcome was unknown and is committed",
    "a committed reader is told of aborted transactions",
    "a committed reader waits behind an open transaction",
    "a connection refused",
    "a connection that was given up before it opened",
    "a coordinator tells CONCURRENT_TRANSACTIONS",
    "a crash inside a write",
    "a crash inside another operation",
    "a crash while a sync is under way",
    "a crash while it starts",
    "a decided transaction is resumed by a start",
    "a disk refuses writes",
    "a disk takes writes again",
    "a fencing while a commit is in flight",
    "a fencing while an abort is in flight",
    "a kill",
    "a power cut: dropped by file",
    "a power cut: torn",
    "a power cut: unsynced dropped",
    "a power cut: zero tail",
    "a producer is told CONCURRENT_TRANSACTIONS",
    "a producer is told INVALID_PRODUCER_EPOCH",
    "a producer that was taken over is fenced",
    "a reader finds its records deleted",
    "a request timed out",
    "a retry answered as a duplicate",
    "a sync has failed",
    "a torn tail is cut",
    "an EndTxn that was repeated is answered",
    "an InitProducerId that was repeated is answered",
    "an abort by timeout",
    "an answer lost with its connection",
    "an end of life between Prepare and the first marker",
    "an end of life between the last marker and Complete",
    "an end of life between two markers",
    "an end of life with a transaction open",
    "an outcome that the log refused",
    "another epoch after batches that were given up",
    "records are deleted",
)
"""States that a run over many seeds must reach."""
CLUSTER_RARE = (
    "a broker loses its connection to another",
    "a broker registers",
    "a change of an in-sync set is asked for again",
    "a client follows a partition to its next leader",
    "a client is told of a leader that was replaced",
    "a coordinator resigns",
    "a coordinator tells COORDINATOR_LOAD_IN_PROGRESS",
    "a coordinator tells NOT_COORDINATOR",
    "a crash of a paused process",
    "a crash while it stops",
    "a follower gives up what its leader has not",
    "a follower lags",
    "a leader does not know yet how far its log is committed",
    "a leader is elected with records that were not committed",
    "a leader is moved",
    "a leader that was replaced does not know it yet",
    "a marker of a newer coordinator",
    "a producer is told NOT_ENOUGH_REPLICAS",
    "a producer is told NOT_LEADER_OR_FOLLOWER",
    "a producer is told REQUEST_TIMED_OUT",
    "a reader is told FENCED_LEADER_EPOCH",
    "a reader is told UNKNOWN_LEADER_EPOCH",
    "a broker is fenced",
    "an elected coordinator has loaded its log",
    "an in-sync set is changed",
    "another leader is elected",
    "markers cannot be sent",
)
"""States that a run over many seeds of several brokers must reach as well."""


def rare(brokers: int) -> tuple[str, ...]:
    """Return the states that many seeds must reach."""
    return RARE if brokers == 1 else tuple(sorted((*RARE, *CLUSTER_RARE)))


@dataclass(slots=True)
class Report:
    """The result of many seeds. ``failed`` are the verdicts with findings, in the order of their seeds."""

    brokers: int = 1
    seeds: int = 0
    transactions: int = 0
    steps: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[Judgement] = field(default_factory=list)

    @property
    def missed(self) -> list[str]:
        """Rare states that no seed has reached."""
        return [name for name in rare(self.brokers) if not self.reached[name]]

    def add(self, other: Report) -> None:
        self.seeds += other.seeds
        self.transactions += other.transactions
        self.steps += other.steps
        self.reached += other.reached
        self.outcomes += other.outcomes
        self.failed = sorted([*self.failed, *other.failed], key=lambda verdict: verdict.plan.seed)


def play(seeds: Sequence[int], transactions: int, *, brokers: int = 1, whole_states: bool = True) -> Report:
    report = Report(brokers=brokers)
    for seed in seeds:
        verdict = judge(draw(seed, transactions, brokers=brokers), whole_states=whole_states)
        report.seeds += 1
        report.transactions += sum(verdict.outcomes.values())
        report.steps += verdict.steps
        report.reached += verdict.reached
        report.outcomes += verdict.outcomes
        if verdict.findings:
            report.failed.append(verdict)
    return report


def run(
    seeds: Sequence[int],
    *,
    transactions: int = 100,
    brokers: int = 1,
    processes: int = 1,
    whole_states: bool = True,
    progress: Callable[[int], None] = lambda seeds: None,
) -> Report:
    """Play seeds in several processes. ``progress`` gets the number of finished seeds.

    The result of a seed does not depend on the number of processes.
    """
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    report = Report(brokers=brokers)
    played = partial(play, transactions=transactions, brokers=brokers, whole_states=whole_states)
    for part in _parts(chunks, played, processes):
        report.add(part)
        progress(report.seeds)
        if len(report.failed) >= MAX_FAILED:
            break
    return report


def _parts(chunks: list[Sequence[int]], played: Callable[[Sequence[int]], Report], processes: int) -> Iterator[Report]:
    if processes == 1:
        for chunk in chunks:
            yield played(chunk)
        return
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(played, chunk) for chunk in chunks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def shrink(plan: Plan, fails: Callable[[Plan], bool], *, runs: int = SHRINKING_RUNS) -> Plan:
    """Return a smaller plan that still fails, with fewer faults, actors and transactions. Tries at most ``runs`` plans."""
    left = runs

    def still_fails(smaller: Plan) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(smaller)

    while True:
        smaller = next((candidate for candidate in _smaller(plan) if still_fails(candidate)), None)
        if smaller is None:
            return plan
        plan = smaller


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans that are one step smaller, the largest reduction first."""
    replace = msgspec.structs.replace
    if len(plan.faults) > 2:
        half = len(plan.faults) // 2
        yield replace(plan, faults=plan.faults[:half])
        yield replace(plan, faults=plan.faults[half:])
    for transactions in (plan.transactions // 4, plan.transactions // 2, plan.transactions * 3 // 4):
        if 0 < transactions < plan.transactions:
            yield replace(plan, transactions=transactions)
    for at in range(len(plan.faults)):
        yield replace(plan, faults=plan.faults[:at] + plan.faults[at + 1 :])
    for at in range(len(plan.actors)):
        faults = tuple(
            replace(fault, actor=fault.actor - (fault.actor > at))
            for fault in plan.faults
            if fault.actor != at or not _has_actor(fault.kind)
        )
        yield replace(plan, actors=plan.actors[:at] + plan.actors[at + 1 :], faults=faults)
    if plan.skew_ms:
        yield replace(plan, skew_ms=0)


def _has_actor(kind: str) -> bool:
    return "client" in kind or kind in (CUT, CUT_TO, CUT_FROM)
