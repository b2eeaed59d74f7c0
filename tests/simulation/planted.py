"""Plants a fault into a broker, which a simulated world must detect: ``python -m tests.simulation.planted NAME``.

Prints the seed that detects the fault, and its finding. The search begins with the seed that detected the fault last time. Faults
of `tests.mutants` are used if a world with one broker can detect them. `OWN` adds faults of syncs and crashes, which no scenario
covers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.mutants.breaking import broken
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.player import NOTICED, Changed
from tests.simulation.planted_clusters import CLUSTER

ROOT = Path(__file__).parents[2]
SEEDS = 1_000
TRANSACTIONS = 100
OF_SCENARIOS = (
    "the last stable offset is the high watermark",
    "markers are written only to the first partition",
    "the aborted list is dropped",
    "EndTxn is answered before the Prepare record is in the log",
    "pending offsets are visible before the commit",
    "InitProducerId does not abort an open transaction",
    "an aborted transaction is missing in the transaction index",
    "aborted offsets are committed",
    "prepared transactions are not resumed after a restart",
    "producer ids are reused after a kill",
)
OWN = (
    Mutant(
        "a response is sent before its write is synced",
        file="ottla/broker/partitions/barrier.py",
        function="Barrier.is_pending",
        old="self.group_commit is not None and self.group_commit.is_pending",
        new="False",
        caught_by="",
    ),
    Mutant(
        "markers are sent before the decision is synced",
        file="ottla/broker/partitions/barrier.py",
        function="Barrier.before_effect",
        old="await committed and await self.durable_before_effect()",
        new="await committed",
        caught_by="",
    ),
    Mutant(
        "a group commit syncs no files",
        file="ottla/broker/partitions/durability.py",
        function="GroupCommit._sync",
        old="sync_file(fs, path)",
        new="None",
        caught_by="",
    ),
    Mutant(
        "a retried batch is appended again",
        file="ottla/storage/log.py",
        function="Log.append_as_leader",
        old="time_ms = duplicate.timestamp_ms",
        new="return self._append(batch, header, now_ms)",
        caught_by="",
    ),
)
CAUGHT_BEFORE_BY = {
    "InitProducerId does not abort an open transaction": 15,
    "producer ids are reused after a kill": 434,
    "markers are sent before the decision is synced": 11,
    "a log is truncated to the high watermark instead of the epoch's end": 18,
    "a marker is answered before it is committed": 10,
    "markers of an old coordinator are accepted": 150,
    "a batch is appended after a verification that is not committed": 38,
    "a marker for a partition without leader counts as written": 128,
    "requests that wait at a replaced leader succeed": 14,
    "the high watermark advances below min.insync.replicas": 10,
}
"""First seed that detects a fault, for faults that most seeds miss. A change of ottla may move it to another seed."""
PLANTED = [*(mutant for mutant in MUTANTS if mutant.name in OF_SCENARIOS), *OWN, *CLUSTER]


def catching_seed(mutant: Mutant, seeds: int = SEEDS) -> tuple[int, str] | None:
    """Return a seed whose world detects the fault, and its first finding.

    Call this only once in a process, as it replaces a module.

    The seed in `CAUGHT_BEFORE_BY` is tried before all others, because the fault has no effect in most worlds.
    """
    module = mutant.file.removesuffix(".py").replace("/", ".")
    assert module not in sys.modules, f"{module} was already imported without the fault"
    sys.meta_path.insert(0, Changed(module, broken((ROOT / mutant.file).read_text(), mutant)))
    from ottla.simulation.judging import judge
    from ottla.simulation.plan import draw

    brokers = 3 if mutant in CLUSTER else 1
    for seed in (CAUGHT_BEFORE_BY.get(mutant.name, 1), *range(1, seeds + 1)):
        verdict = judge(draw(seed, TRANSACTIONS, brokers=brokers))
        if verdict.findings:
            return seed, verdict.findings[0]
    return None


def main() -> int:
    (mutant,) = [mutant for mutant in PLANTED if mutant.name == sys.argv[1]]
    caught = catching_seed(mutant)
    if caught is None:
        return 0
    print(f"seed {caught[0]}: {caught[1]}")
    return NOTICED


if __name__ == "__main__":
    sys.exit(main())
