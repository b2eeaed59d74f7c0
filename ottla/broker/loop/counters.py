"""Counters that the parts of a broker increment. `broker.metrics` exports them to Prometheus; this module does not import it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

RECENT = 1_024
"""Number of the latest samples from which a quantile is computed."""
DURATION_BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0)

RATE_WINDOW_MS, MINUTE_MS = 30_000, 60_000


class Recent:
    """Count and sum of all samples, and the last `RECENT` samples for quantiles."""

    __slots__ = ("count", "last", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.last: deque[float] = deque(maxlen=RECENT)

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.last.append(value)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.last)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class RatePerMinute:
    """Events per minute in the current and the previous window of 30 s (org.apache.kafka.common.metrics.stats.Rate)."""

    __slots__ = ("_before", "_began_ms", "_count")

    def __init__(self) -> None:
        self._began_ms = 0
        self._before = self._count = 0

    def add(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._began_ms
        if elapsed_ms >= RATE_WINDOW_MS:
            self._before = self._count if elapsed_ms < 2 * RATE_WINDOW_MS else 0
            self._began_ms, self._count = now_ms, 0
        self._count += 1

    def measured(self, now_ms: int) -> float:
        """The rate over both windows. The 30 s before the first event count as an empty window, so that a single event does not
        look like a burst."""
        elapsed_ms = now_ms - self._began_ms
        if elapsed_ms >= 2 * RATE_WINDOW_MS:
            return 0.0
        return (self._before + self._count) * MINUTE_MS / (RATE_WINDOW_MS + elapsed_ms)


class Counters:
    """The counters of a broker.

    ``requests`` counts by API key and version, ``transactions`` by outcome: commit, abort, timeout, fenced.

    ``authentications`` counts by listener and outcome. The outcomes are named as Kafka's metrics: successful_authentication,
    successful_authentication_no_reauth, failed_authentication, successful_reauthentication, failed_reauthentication,
    expired_connections_killed. ``reauthentication_ms`` has the times of successful re-authentications by listener.

    ``inflated_bytes`` counts the decompressed bytes of produced batches that are checked in steps.

    ``isr_expands``, ``isr_shrinks`` and ``failed_isr_updates`` count changes of in-sync sets that this broker has requested.
    """

    __slots__ = (
        "authentications",
        "durations",
        "durations_sum_s",
        "failed_isr_updates",
        "inflated_bytes",
        "isr_expands",
        "isr_shrinks",
        "reauthentication_ms",
        "requests",
        "transactions",
        "verification_failures",
        "verification_ms",
    )

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, int]] = Counter()
        self.authentications: Counter[tuple[str, str]] = Counter()
        self.reauthentication_ms: defaultdict[str, Recent] = defaultdict(Recent)
        self.transactions: Counter[str] = Counter()
        # Number of transactions by upper bound of duration (`DURATION_BOUNDS_S`). The last element counts longer transactions.
        self.durations = [0] * (len(DURATION_BOUNDS_S) + 1)
        self.durations_sum_s = 0.0
        self.inflated_bytes = 0
        self.verification_ms = Recent()
        self.verification_failures = 0
        self.isr_expands = self.isr_shrinks = self.failed_isr_updates = 0

    def transaction_ended(self, outcome: str, duration_ms: float) -> None:
        self.transactions[outcome] += 1
        seconds = max(duration_ms, 0) / 1000
        self.durations_sum_s += seconds
        at = next((i for i, bound in enumerate(DURATION_BOUNDS_S) if seconds <= bound), len(DURATION_BOUNDS_S))
        self.durations[at] += 1
