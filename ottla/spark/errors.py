"""The errors of a pipeline. Each text is one line for a person: what happened and what to do."""

from __future__ import annotations

from ottla.protocol.remedies import ABORTABLE, FENCED, name_of

_LOST = ("failOnDataLoss", "KAFKA_DATA_LOSS", "may have been lost")


class PipelineError(Exception):
    """An error that ends the job. The text is for a person."""


class Fenced(PipelineError):
    """Another pipeline uses the transactional id now, so this pipeline must stop."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"another pipeline uses {transactional_id!r} and has fenced this one; stop one of them,"
            " or give each a transactional.id of its own"
        )
        self.transactional_id = transactional_id

    def __reduce__(self) -> tuple[type[Fenced], tuple[str]]:
        # An error in a task is pickled for the driver.
        return Fenced, (self.transactional_id,)


class MustAbort(RuntimeError):
    """The transaction can no longer be committed. The batch may be retried in the next transaction."""


class IdExpired(MustAbort):
    """The transactional id had expired (transactional.id.expiration.ms), so none of its transactions was open.

    The producer has initialized the id again.
    """

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"the transactional id {transactional_id!r} had expired (transactional.id.expiration.ms); it was initialized again"
        )


class BrokerRefused(PipelineError):
    """The broker answered with an error that a retry does not fix."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        said = " ".join((message or "").split())
        super().__init__(f"{what}: the broker returned {name_of(code)}" + (f" ({said})" if said else ""))
        self.arguments = (what, code, message)

    @property
    def code(self) -> int:
        return self.arguments[1]

    def __reduce__(self) -> tuple[type[BrokerRefused], tuple[str, int, str | None]]:
        return BrokerRefused, self.arguments


class NotServed(PipelineError):
    """The broker does not support a version of a request that ottla supports."""


def refusal(transactional_id: str, what: str, code: int, message: str | None = None) -> Exception:
    """Return the error of a transactional producer for an error code that is not retriable: `Fenced`, `MustAbort` or
    `BrokerRefused`."""
    if code in FENCED:
        return Fenced(transactional_id)
    refused = BrokerRefused(what, code, message)
    return MustAbort(str(refused)) if code in ABORTABLE else refused


_TRAVELLING: tuple[type[Exception], ...] = (Fenced, BrokerRefused, PipelineError, MustAbort)


def label_of(error: Exception) -> str:
    """Format an error as one line of text, which `raised_in_task` parses."""
    kind = next(kind for kind in _TRAVELLING if isinstance(error, kind))
    return f"{_label(kind)}{' '.join(str(error).split())}"


def raised_in_task(text: str, transactional_id: str) -> PipelineError | MustAbort | None:
    """Parse the error of this module that a task has raised, from Spark's text about the failure or from `label_of`.

    Returns None if the text contains no such error. The type is kept, because only some errors are worth a retry.
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
    """Return the part of Spark's text that a person needs: the line of an error of this module, or the loss of data, or the first
    line."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        for kind in _TRAVELLING:
            if _label(kind) in line:
                return line.partition(_label(kind))[2].strip()
    if any(word in text for word in _LOST):
        return (
            "retention has removed records that were not read yet: nothing is written past the loss;"
            " failOnDataLoss=false (--accept-data-loss) continues with the remaining records"
        )
    return lines[0] if lines else "the stream failed"


def _label(kind: type[Exception]) -> str:
    return f"{kind.__module__}.{kind.__name__}: "
