"""Simulates many seeds on all cores: collects errors and rare states, and shrinks failing plans."""

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
"""Number of seeds that a process simulates before it reports."""
MAX_FAILED = 20
"""Number of failing seeds after which no further seeds are simulated."""
SHRINKING_RUNS = 400
RARE = (
    "a batch after a lost batch is refused",
    "a clean stop",
    "a commit whose outcome was unknown and is aborted",
    "a commit whose outcome was unknown and is committed",
    "a read_committed consumer receives aborted transactions",
    "a read_committed consumer waits for an open transaction",
    "a connection is refused",
    "a connection is abandoned before it opens",
    "a coordinator responds with CONCURRENT_TRANSACTIONS",
    "a crash inside a write",
    "a crash inside another operation",
    "a crash during a sync",
    "a crash during the start",
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
    "a producer receives CONCURRENT_TRANSACTIONS",
    "a producer receives INVALID_PRODUCER_EPOCH",
    "a producer is fenced by its successor",
    "a consumer finds its records deleted",
    "a request timed out",
    "a retry is answered as a duplicate",
    "a sync has failed",
    "a torn log end is truncated",
    "a repeated EndTxn is answered",
    "a repeated InitProducerId is answered",
    "an abort by timeout",
    "a response is lost with its connection",
    "a failure between Prepare and the first marker",
    "a failure between the last marker and Complete",
    "a failure between two markers",
    "a failure while a transaction is open",
    "an outcome that the log refuses",
    "a new epoch after abandoned batches",
    "records are deleted",
)
"""Rare states that simulations of many seeds must reach."""
CLUSTER_RARE = (
    "a broker loses its connection to another",
    "a broker registers",
    "an AlterPartition request is repeated",
    "a client follows a partition to its next leader",
    "a client receives a replaced leader",
    "a coordinator resigns",
    "a coordinator responds with COORDINATOR_LOAD_IN_PROGRESS",
    "a coordinator responds with NOT_COORDINATOR",
    "a crash of a paused process",
    "a crash during the stop",
    "a follower truncates records that its leader lacks",
    "a follower lags",
    "a new leader does not know its high watermark yet",
    "a leader is elected with records that were not committed",
    "a leader is moved",
    "a replaced leader does not know that it was replaced",
    "a marker of a newer coordinator",
    "a producer receives NOT_ENOUGH_REPLICAS",
    "a producer receives NOT_LEADER_OR_FOLLOWER",
    "a producer receives REQUEST_TIMED_OUT",
    "a consumer receives FENCED_LEADER_EPOCH",
    "a consumer receives UNKNOWN_LEADER_EPOCH",
    "a broker is fenced",
    "an elected coordinator has loaded its log",
    "an ISR is changed",
    "another leader is elected",
    "markers cannot be sent",
)
"""Rare states that simulations of several brokers must reach as well."""


def rare(brokers: int) -> tuple[str, ...]:
    """Return the rare states that simulations of this number of brokers must reach."""
    return RARE if brokers == 1 else tuple(sorted((*RARE, *CLUSTER_RARE)))


@dataclass(slots=True)
class Report:
    """The results of many seeds. ``failed`` are the results with errors, by seed."""

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
    """Simulate seeds in several processes. ``progress`` gets the number of finished seeds.

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
