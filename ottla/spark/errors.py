"""What goes wrong in a pipeline, as a person is told it: one line that says what happened and what to do."""

from __future__ import annotations

from ottla.protocol.errors import Code

_OUR_ERRORS = ("Fenced", "BrokerRefused", "PipelineError")
_LOST = ("failOnDataLoss", "KAFKA_DATA_LOSS", "could not be found", "may have been lost")


class PipelineError(Exception):
    """Ends the job. The text is for a person."""


class Fenced(PipelineError):
    """Another pipeline has taken the transactional id over: this one must stop."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"another pipeline runs as {transactional_id!r} and has fenced this one; stop one of them,"
            " or give each a transactional.id of its own"
        )
        self.transactional_id = transactional_id

    def __reduce__(self) -> tuple[type[Fenced], tuple[str]]:
        # Raised in a task, it travels to the driver.
        return Fenced, (self.transactional_id,)


class IdExpired(RuntimeError):
    """The cluster has forgotten the transactional id, as it does with one that was idle for long: nothing of it was open.

    It has been taken anew, and the batch may be tried again.
    """

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"the cluster had forgotten {transactional_id!r} (transactional.id.expiration.ms); it was taken anew")


class BrokerRefused(PipelineError):
    """The broker answered with an error that no waiting will mend."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: the broker answered {Code(code).name}" + (f" ({message})" if message else ""))
        self.arguments = (what, code, message)

    def __reduce__(self) -> tuple[type[BrokerRefused], tuple[str, int, str | None]]:
        return BrokerRefused, self.arguments


FENCED = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.TRANSACTION_COORDINATOR_FENCED,
        Code.INVALID_PRODUCER_ID_MAPPING,
    }
)
PASSING = frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.CONCURRENT_TRANSACTIONS,
        Code.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors that go by themselves: the same request is sent again."""


def cause_of(text: str) -> str:
    """What a person needs of what Spark says: the line of our own error in it, or the loss of data, or the first line."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        for name in _OUR_ERRORS:
            error_label = f"ottla.spark.errors.{name}: "
            if error_label in line:
                return line.partition(error_label)[2].strip()
    if any(word in text for word in _LOST):
        return (
            "retention has removed records that were not read yet: nothing is written past the loss;"
            " failOnDataLoss=false (--accept-data-loss) goes on with what is left"
        )
    return lines[0] if lines else "the stream failed"
