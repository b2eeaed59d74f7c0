"""Generates random inputs from fixed seeds, runs Apache Kafka's classes on them, and records the results.

    KAFKA_HOME=... python -m tests.coordinator.streams.kafka.questions

writes ``assign.jsonl``, ``reconcile.jsonl`` and ``configure.jsonl``. Each line has an input (question) and Kafka's result
(answer). The command needs Java 17 and the jars of Apache Kafka 4.4.0 in ``$KAFKA_HOME/libs``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Question = dict[str, Any]


def assign(rng: random.Random) -> Question:
    """Return a random group for the task assignor. Tasks may have no owner or an unsuitable one."""
    subtopologies = {str(i): [rng.randint(1, 6), rng.random() < 0.6] for i in range(rng.choice([1, 2, 3, 12]))}
    tasks = [(i, p) for i, (count, _) in subtopologies.items() for p in range(count)]
    processes = [f"process-{rng.randrange(10**6)}" for _ in range(rng.randint(1, 6))]
    members = [f"member-{rng.randrange(10**9)}" for _ in range(rng.randint(1, 9))]
    described: dict[str, Any] = {
        m: {"process": rng.choice(processes), "active": {}, "standby": {}, "offsets": {}} for m in dict.fromkeys(members)
    }
    for i, p in tasks:
        if rng.random() < 0.6:
            described[rng.choice(members)]["active"].setdefault(i, []).append(p)
        for member in described.values():
            if rng.random() < 0.15:
                member["standby"].setdefault(i, []).append(p)
            if rng.random() < 0.15:
                member["offsets"].setdefault(i, {})[p] = rng.choice([0, 5, 100])
    return {"standbys": rng.choice([0, 0, 1, 2]), "subtopologies": subtopologies, "members": list(described.items())}


def reconcile(rng: random.Random) -> Question:
    """Return a member with random current tasks and a random target assignment."""
    tasks = [(i, p) for i in ("0", "1") for p in range(3)]
    roles = ("active", "standby", "warmup")
    epoch = rng.randint(1, 9)

    def spread(chance: float) -> dict[str, dict[str, list[int]]]:
        spread: dict[str, dict[str, list[int]]] = {role: {} for role in roles}
        for i, p in tasks:
            if rng.random() < chance:
                spread[rng.choice(roles)].setdefault(i, []).append(p)
        return spread

    def with_epochs(tasks: dict[str, Any]) -> dict[str, Any]:
        return tasks | {"active": {i: {p: rng.randint(0, epoch) for p in found} for i, found in tasks["active"].items()}}

    assigned, pending = spread(0.6), spread(rng.choice([0, 0, 0.3]))
    holders: dict[str, Any] = {role: {} for role in roles}
    for role in roles:
        for i, p in tasks:
            held = ["p0"] if p in assigned[role].get(i, []) or p in pending[role].get(i, []) else []
            others = [f"p{n}" for n in range(3) if rng.random() < 0.15]
            found = sorted({*held, *others})
            if found:
                holders[role].setdefault(i, {})[p] = found[:1] if role == "active" else found
    return {
        "member": {
            "epoch": epoch,
            "previous": rng.randint(0, epoch),
            "state": rng.choice([1, 2, 3, 127]),
            "assigned": with_epochs(assigned),
            "pending": with_epochs(pending),
        },
        "epoch": epoch + rng.choice([0, 1, 1, 2]),
        "target": rng.choice([spread(0.7), spread(0.7), assigned]),
        "owned": rng.choice([None, assigned, spread(0.3), spread(0), spread(0)]),
        "holders": holders,
    }


def configure(rng: random.Random) -> Question:
    """Return a random topology, which may be invalid, and random topics, some of which may be missing."""
    ids = [str(i) for i in range(rng.choice([1, 2, 3, 11]))]
    external = [f"t{i}" for i in range(4)]
    internal = {f"r{i}": rng.choice([0, 0, 0, 2, 4]) for i in range(rng.randint(0, 4))}
    subtopologies = []
    for i in ids:
        sources = rng.sample(external, rng.choice([0, 1, 1, 2]))
        repartition = rng.sample(sorted(internal), rng.randint(0 if sources else min(1, len(internal)), min(2, len(internal))))
        groups = []
        if rng.random() < 0.4:
            groups.append([list(range(rng.randint(0, len(sources)))), list(range(rng.randint(0, len(repartition))))])
        subtopologies.append(
            {
                "id": i,
                "sources": sources,
                "sinks": rng.sample(sorted(internal), rng.randint(0, len(internal))),
                "repartition": [[name, internal[name]] for name in repartition],
                "changelogs": [[f"c{i}", 0]] if rng.random() < 0.5 else [],
                "copartition": groups,
            }
        )
    # The first subtopology writes to all repartition topics, which makes most of the topologies valid.
    subtopologies[0]["sinks"] = sorted(internal)
    topics = {name: rng.choice([2, 2, 4, 3]) for name in external if rng.random() < 0.95}
    made = [*internal, *(f"c{i}" for i in ids)]
    chance = rng.choice([0, 0, 0.1, 0.5])
    topics |= {name: rng.choice([2, 4]) for name in made if rng.random() < chance}
    return {"topics": topics, "subtopologies": subtopologies}


KINDS: dict[str, tuple[Callable[[random.Random], Question], int]] = {
    "assign": (assign, 200),
    "reconcile": (reconcile, 250),
    "configure": (configure, 250),
}


def questions(kind: str) -> list[Question]:
    make, count = KINDS[kind]
    # The JSON round trip turns integer keys into strings, as in the recorded files.
    return [json.loads(json.dumps(make(random.Random(seed)))) for seed in range(count)]


def write(kind: str, libs: Path) -> None:
    asked = questions(kind)
    done = subprocess.run(
        ["java", "-cp", f"{libs}/*", str(HERE / "Answers.java"), kind],
        input="\n".join(json.dumps(question) for question in asked),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    lines = [json.dumps([q, a], separators=(",", ":")) for q, a in zip(asked, answers, strict=True)]
    (HERE / f"{kind}.jsonl").write_text("\n".join(lines) + "\n", encoding="ascii")


@cache
def read(kind: str) -> list[tuple[Question, Any]]:
    lines = (HERE / f"{kind}.jsonl").read_text(encoding="ascii").splitlines()
    return [(question, answer) for question, answer in map(json.loads, lines)]


if __name__ == "__main__":
    for kind in KINDS:
        write(kind, Path(os.environ["KAFKA_HOME"]) / "libs")
