"""An error of a retried operation is logged once, and then counted while it lasts."""

from __future__ import annotations

from collections.abc import Iterator
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
        """Report a failure every 100 ms for this long."""
        for _ in range(for_ms // 100):
            self.errors.failed("not_read", reason, **given)
            self.now_ms += 100

    @property
    def lines(self) -> list[tuple[str, Any]]:
        return [(call.kwargs["reason"], call.kwargs.get("times")) for call in self.log.calls]


def test_repeated_error_is_logged_once_and_counted_at_growing_intervals() -> None:
    retried = Retried()
    retried.fail(FIRST_INTERVAL_MS)
    assert retried.lines == [("refused", None)]
    retried.fail(61_000)
    assert retried.lines == [("refused", None), ("refused", 101), ("refused", 301), ("refused", 701)]
    retried.fail(3_600_000)
    assert len(retried.lines) < 4 + 4 + 3_600_000 // LONGEST_INTERVAL_MS


def test_different_errors_are_logged_once_each() -> None:
    retried = Retried()
    for _ in range(20):
        retried.fail(100, "refused")
        retried.fail(100, "late")
    assert retried.lines == [("refused", None), ("late", None)]


def test_error_after_a_success_is_logged_again() -> None:
    retried = Retried()
    retried.fail(1_000, key=1)
    retried.fail(1_000, key=2)
    retried.errors.succeeded(1)
    retried.fail(1_000, key=1)
    retried.fail(1_000, key=2)
    assert retried.lines == [("refused", None)] * 3


def test_error_with_different_fields_is_not_logged_again() -> None:
    retried = Retried()
    retried.fail(100, replicas=3)
    retried.fail(100, replicas=4)
    assert [call.kwargs["replicas"] for call in retried.log.calls] == [3]


def test_error_that_reappears_after_a_long_time_is_logged_again() -> None:
    retried = Retried()
    retried.fail(1_000)
    retried.now_ms += LONGEST_INTERVAL_MS - 1_000
    retried.fail(100)
    assert retried.lines == [("refused", None), ("refused", 11)]
    retried.now_ms += LONGEST_INTERVAL_MS + 1
    retried.fail(100)
    assert retried.lines[2:] == [("refused", None)]


def test_error_after_a_periodic_check_without_errors_is_logged_again() -> None:
    retried = Retried()

    def one_round(*, fails: bool) -> None:
        with retried.errors.round("sweep"):
            if fails:
                retried.fail(300, key="sweep")

    one_round(fails=True)
    one_round(fails=True)
    assert retried.lines == [("refused", None)]
    one_round(fails=False)
    one_round(fails=True)
    assert retried.lines == [("refused", None)] * 2


def test_error_after_an_interrupted_periodic_check_is_not_logged_again() -> None:
    retried = Retried()

    def steps() -> Iterator[None]:
        with retried.errors.round("sweep"):
            yield

    retried.fail(100, key="sweep")
    begun = steps()
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    retried.fail(100, key="sweep")
    assert retried.lines == [("refused", None)]


def test_errors_above_the_number_of_tracked_errors_share_a_log_line() -> None:
    """Two thousand groups fail. The first thousand get a log line each, the others share a line, and counts follow later."""
    retried = Retried()
    for _ in range(60):
        for group in range(2 * MAX_ERRORS):
            retried.errors.failed("not_read", "refused", key=group)
        retried.now_ms += 1_000
    first, later = retried.lines[: MAX_ERRORS + 1], retried.lines[MAX_ERRORS + 1 :]
    assert {times for _, times in first} == {None}
    assert len(later) <= 2 * (MAX_ERRORS + 1)


def test_number_of_tracked_repeated_errors_is_bounded() -> None:
    retried = Retried()
    for number in range(2 * MAX_ERRORS):
        retried.errors.failed("not_read", f"reason {number}")
    assert len(retried.errors._known) == repeated_errors.MAX_ERRORS
