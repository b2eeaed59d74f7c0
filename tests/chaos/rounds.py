"""The main loop of the campaigns `tests.chaos.unclean` and `tests.chaos.share`. Their number of faults counts all kinds of faults.

A campaign runs rounds. Each round starts a new cluster with its clients, injects faults, stops everything and checks the results.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from ottla.client.errors import ClientError
from ottla.protocol.topic_partition import TopicPartition
from tests.chaos.campaigns import PlayedCluster

FAULTS_A_ROUND = 30
BETWEEN_S = (0.3, 1.5)
IN_SYNC_S = 60.0


@dataclass(slots=True)
class FaultReport:
    """Faults and findings of a chaos run."""

    seed: str
    faults: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """Further counters by title, such as the outcomes of transactions."""
    played: list[str] = field(default_factory=list)
    """Lines with the time and the description of each fault. Times are in the format of the brokers' logs."""
    findings: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        return self.faults.total()

    def note(self, what: str) -> None:
        self.played.append(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {what}")

    def count(self, of: str, counted: Counter[str]) -> None:
        self.counts[of] = self.counts.get(of, Counter()) + counted

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.done} faults: {_listed(self.faults)}"]
        lines += [f"{counted.total():,} {of}: {_listed(counted)}" for of, counted in self.counts.items()]
        return "\n".join([*lines, *(f"FOUND {finding}" for finding in self.findings)])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))


class Round(Protocol):
    """One cluster with its clients, and the faults that can be injected."""

    @property
    def cluster(self) -> PlayedCluster: ...

    @property
    def rng(self) -> random.Random: ...

    @property
    def deck(self) -> Sequence[str]:
        """Names of the faults. `run` injects all of them in random order, then all of them again in a new order."""
        ...

    def begin(self) -> None: ...

    def play(self, card: str) -> None: ...

    def end(self) -> Iterable[str]:
        """Stop clients and cluster, and check the results. Returns the findings."""
        ...

    def close(self) -> None:
        """Kill the processes that are still running."""
        ...


NewRound = Callable[[Path, str, int, FaultReport], Round]
"""Creates a round from its directory, its seed, its number and the report."""


def run(
    faults: int,
    seed: str,
    new_round: NewRound,
    *,
    progress: Callable[[int], None] = lambda done: None,
    keep: Path | None = None,
) -> FaultReport:
    """Run one round after the other until ``faults`` faults are done or a check fails.

    All directories are created in ``keep`` if it is set. Otherwise only directories with findings are kept.
    """
    report = FaultReport(seed)
    number = 0
    while report.done < faults and not report.findings:
        number += 1
        directory = Path(tempfile.mkdtemp(prefix=f"ottla-chaos-{number}-", dir=keep))
        one = new_round(directory, f"{seed}/{number}", number, report)
        try:
            one.begin()
            _play(one, report, min(FAULTS_A_ROUND, faults - report.done), progress)
            report.findings += [f"{seed}/{number}: {finding}" for finding in one.end()]
        except Exception:
            report.findings.append(f"{seed}/{number}: {traceback.format_exc()}")
        finally:
            one.close()
            (directory / "logs.txt").write_text("\n".join(one.cluster.logs))
            (directory / "played.txt").write_text("\n".join(report.played))
            one.cluster.close()
        if report.findings:
            report.findings.append(f"the directory of this round is {directory}")
        elif keep is None:
            shutil.rmtree(directory)
    return report


def _play(one: Round, report: FaultReport, faults: int, progress: Callable[[int], None]) -> None:
    cards: list[str] = []
    for _ in range(faults):
        if not cards:
            cards = list(one.deck)
            one.rng.shuffle(cards)
        card = cards.pop()
        report.faults[card] += 1
        report.note(card)
        one.play(card)
        report.note("  healed")
        progress(report.done)
        time.sleep(one.rng.uniform(*BETWEEN_S))


def in_sync(cluster: PlayedCluster, where: TopicPartition) -> list[int]:
    """Return the in-sync replicas of a partition, or an empty list if the request fails."""
    with suppress(ClientError, TimeoutError):
        return cluster.in_sync(*where)
    return []


def leader(cluster: PlayedCluster, where: TopicPartition) -> int | None:
    """Return the leader of a partition, or None if the partition has no leader or the request fails."""
    with suppress(ClientError, TimeoutError):
        return cluster.leader(*where)
    return None


def await_in_sync(cluster: PlayedCluster, partitions: Sequence[TopicPartition]) -> None:
    """Wait until all replicas of the partitions are in sync. Raises TimeoutError with the partitions that are not in sync."""
    deadline = time.monotonic() + IN_SYNC_S
    while late := [(where, in_sync(cluster, where)) for where in partitions if len(in_sync(cluster, where)) < 3]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in sync after {IN_SYNC_S:g} s: {late}")
        time.sleep(0.1)
