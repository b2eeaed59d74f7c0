"""Consecutive transactions with a fault each, from a client that retries as producers do: each is committed exactly once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.control.faults.registry import Fault
from ottla.simulation.client import Closed
from tests.control.faulty import Faulty, Killed
from tests.support.levels import seeds

TRANSACTIONS = 12
ATTEMPTS = 20
POINTS = ("before-prepare", "after-prepare", "between-markers", "before-offsets", "before-complete")


def some_fault(rng: random.Random) -> dict[str, Any]:
    point = rng.choice(POINTS)
    return rng.choice(
        [
            {"kill": point},
            {"kill": "between-markers", "after_markers": 2},
            {"hold": point, "times": 1},
            {"refuse": point if point != "after-prepare" else "before-prepare"},
            {"api": "EndTxn", "cut": rng.choice(["before", "after"])},
            {"api": "EndTxn", "kill": rng.choice(["before", "after"])},
            {"api": "EndTxn", "drop_answer": True},
            {"api": "EndTxn", "drop_request": True},
            {"api": "EndTxn", "error": "CONCURRENT_TRANSACTIONS", "times": 3},
            {"api": "EndTxn", "hold": "before"},
            {"api": "EndTxn", "delay_answer_ms": 500},
            {"api": "*", "probability": 0.3, "seed": rng.randrange(99), "cut": "after", "times": 2},
        ]
    )


def committed(faulty: Faulty, version: int) -> str:
    """Retry EndTxn until it succeeds, and return its last response. Faults that still hold the transaction are then removed."""
    for _ in range(ATTEMPTS):
        try:
            answer = faulty.do(f"commit A v={version} nosettle once")
        except Killed:
            answer = "killed"
            faulty.faults.clear()
            faulty.world.forget_connection()
            faulty.broker.restart(kill=True)
        except Closed:
            answer = "closed"
        if answer.startswith("NONE"):
            break
        if answer == "closed":
            faulty.faults.clear()
        faulty.broker.sleep(200)
    for added in faulty.faults.all():
        faulty.release(added)
    faulty.broker.sleep(3_000)
    return answer


@pytest.mark.smoke
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("seed", seeds(8, in_check=2))
def test_each_transaction_hit_by_a_random_fault_is_committed_once(faulty: Faulty, seed: int, version: int) -> None:
    rng = random.Random(seed)
    faulty.do("topic t", "topic u", "A = init x timeout=900000")
    for number in range(TRANSACTIONS):
        for topic in "tu":
            if version == 4:
                faulty.do(f"add A {topic} v=3")
            assert faulty.do(f"produce A {topic} v={11 if version == 4 else 12}").startswith("NONE")
        faulty.do("add_offsets A g", f"offsets A g t={number + 1} v={3 if version == 4 else 5}")
        given = some_fault(rng)
        faulty.faults.add(Fault(**given))
        assert committed(faulty, version).startswith("NONE"), given
        assert faulty.do("describe x").startswith("CompleteCommit"), given
        assert faulty.do("committed g t") == str(number + 1), given
    assert faulty.do("read t") == " ".join(f"a{2 * i + 1}" for i in range(TRANSACTIONS))
    assert faulty.do("read u") == " ".join(f"a{2 * i + 2}" for i in range(TRANSACTIONS))
