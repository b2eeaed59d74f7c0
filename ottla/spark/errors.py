"""The errors of a pipeline. Each message is one line for a person: what happened and what to do.

`PipelineError` ends the job, `BrokerRefused` is an error code that a retry does not fix, and `NotServed` means that the broker is
too old or too new for a request.
"""

from __future__ import annotations

from typing import Final

from ottla.client.errors import ClientError as PipelineError
from ottla.client.errors import KafkaAnswered as BrokerRefused
from ottla.client.errors import NotKafka, TimedOut, UnknownTopic, Unreachable
from ottla.client.errors import UnsupportedRequest as NotServed
from ottla.protocol.remedies import ABORTABLE, FENCED

__all__ = [
    "BrokerRefused",
    "Fenced",
    "IdExpired",
    "MustAbort",
    "NotServed",
    "PipelineError",
    "cause_of",
    "label_of",
    "raised_in_task",
    "refusal",
]

TASK_FAILED: Final = "a task of this transaction has failed, so the whole transaction is aborted"
"""Error text for the other tasks of a transaction after a task has failed."""
_LOST = ("failOnDataLoss", "KAFKA_DATA_LOSS", "may have been lost")


class Fenced(PipelineError):
    """Another pipeline uses the transactional id now, so this pipeline must stop."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"another pipeline uses {transactional_id!r} and has fenced this one; stop one of them,"
            " or give each a transactional.id of its own"
        )
        self.transactional_id = transactional_id

    def __reduce__(self) -> tuple[type[Fenced], tuple[str]]:
        # Spark pickles the error of a task to send it to the driver.
        return Fenced, (self.transactional_id,)


class MustAbort(RuntimeError):
    """The transaction can no longer be committed. The batch may be retried in the next transaction."""


class IdExpired(MustAbort):
    """The transactional id had expired (transactional.id.expiration.ms), so it had no open transaction. The producer has
    initialized the id again."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"the transactional id {transactional_id!r} had expired (transactional.id.expiration.ms); it was initialized again"
        )


def refusal(transactional_id: str, refused: BrokerRefused) -> Exception:
    """Return `Fenced` or `MustAbort` for an error code that a transactional producer cannot retry, else the error ``refused``
    itself."""
    if refused.number in FENCED:
        return Fenced(transactional_id)
    return MustAbort(str(refused)) if refused.number in ABORTABLE else refused


_TRAVELLING: tuple[type[Exception], ...] = (
    Fenced,
    UnknownTopic,
    BrokerRefused,
    NotKafka,
    TimedOut,
    Unreachable,
    NotServed,
    PipelineError,
    MustAbort,
)


def label_of(error: Exception) -> str:
    """Format an error as one line of text, which `raised_in_task` parses."""
    kind = next(kind for kind in _TRAVELLING if isinstance(error, kind))
    return f"{_label(kind)}{' '.join(str(error).split())}"


def raised_in_task(text: str, transactional_id: str) -> PipelineError | MustAbort | None:
    """Parse an error of this module that a task has raised. ``text`` is Spark's description of the failure or from `label_of`.

    Returns None if the text contains no such error. `Fenced` keeps its type, and so does `MustAbort`, after which the batch may be
    retried; other errors become `PipelineError`.
    """
    for line in reversed(text.splitlines()):
        for kind in _TRAVELLING:
            if _label(kind) in line:
                what = line.partition(_label(kind))[2].strip()
                if kind is Fenced:
                    return Fenced(transactional_id)
                return MustAbort(what) if kind is MustAbort else PipelineError(what)
    return None


def cause_of(text: str) -> str:
    """Return the most useful line of Spark's error text: an error of this module, a loss of data, or else the first line."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        for kind in _TRAVELLING:
            if _label(kind) in line:
                return line.partition(_label(kind))[2].strip()
    if any(word in text for word in _LOST):
        return (
            "retention has removed records that were not read yet: the stream has stopped before the gap;"
            " failOnDataLoss=false (--accept-data-loss) continues with the remaining records"
        )
    return lines[0] if lines else "the stream failed"


def _label(kind: type[Exception]) -> str:
    return f"{kind.__module__}.{kind.__name__}: "
