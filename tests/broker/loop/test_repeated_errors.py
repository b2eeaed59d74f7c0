"""An error of an operation that is retried is logged once, and counted while it lasts."""

from __future__ import annotations

from typing import Any

from structlog.testing import CapturingLogger

from ottla.broker.loop import repeated_errors
from ottla.broker.loop.repeated_errors import FIRST_INTERVAL_MS, LONGEST_INTERVAL_MS, MAX_ERRORS, RepeatedErrors


class Retried:
    def __init__(self) -> None:
        self.now_ms = 0.0
        self.log = CapturingLogger()
        self.errors = RepeatedErrors(self, self.log)

    def monotonic_ms(self) -> float:
        return self.now_ms

    def fail(self, for_ms: int, reason: str = "refused", **given: Any) -> None:
        """Fail every 100 ms."""
        for _ in range(for_ms // 100):
            self.errors.failed("not_read", reason, **given)
            self.now_ms += 100

    @property
    def lines(self) -> list[tuple[str, Any]]:
        return [(call.kwargs["reason"], call.kwargs.get("times")) for call in self.log.calls]


def test_error_is_logged_once_and_counted_at_growing_intervals() -> None:
    retried = Retried()
    retried.fail(FIRST_INTERVAL_MS)
    assert retried.lines == [("refused", None)]
    retried.fail(61_000)
    assert retried.lines == [("refused", None), ("refused", 101), ("refused", 301), ("refused", 701)]
    retried.fail(3_600_000)
    assert len(retried.lines) < 4 + 4 + 3_600_000 // LONGEST_INTERVAL_MS


def test_another_error_is_logged_at_once_and_alternating_ones_once_each() -> None:
    retried = Retried()
    for _ in range(20):
        retried.fail(100, "refused")
        retried.fail(100, "late")
    assert retried.lines == [("refused", None), ("late", None)]


def test_error_after_a_success_is_new() -> None:
    retried = Retried()
    retried.fail(1_000, key=1)
    retried.fail(1_000, key=2)
    retried.errors.succeeded(1)
    retried.fail(1_000, key=1)
    retried.fail(1_000, key=2)
    assert retried.lines == [("refused", None)] * 3


def test_fields_that_differ_make_no_other_error() -> None:
    retried = Retried()
    retried.fail(100, replicas=3)
    retried.fail(100, replicas=4)
    assert [call.kwargs["replicas"] for call in retried.log.calls] == [3]


def test_errors_that_are_remembered_are_bounded() -> None:
    retried = Retried()
    for number in range(2 * MAX_ERRORS):
        retried.errors.failed("not_read", f"reason {number}")
    assert len(retried.errors._known) == repeated_errors.MAX_ERRORS
