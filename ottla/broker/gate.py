"""The one place that decides when an answer or an effect may leave, for it tells of something that was written.

Whoever lets something leave says behind which log and offset it stands, or that it stands behind all that is written by now. It
leaves when that is committed, which is to say below the high watermark, and as durable as ``ottla.durability`` promises. With
``process`` on one broker that is at once: `Gate.is_always_open`, and nothing is kept. With ``power`` it waits for `GroupCommit`.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.durability import GroupCommit, OnDurable
from ottla.storage.log import Log


class Gate:
    """``group_commit`` is None where nothing waits for the disk."""

    __slots__ = ("group_commit", "is_always_open", "on_written")

    def __init__(self, group_commit: GroupCommit | None) -> None:
        self.group_commit = group_commit
        self.is_always_open = group_commit is None
        self.on_written: Callable[[Log], None] | None = None if group_commit is None else group_commit.wrote
        """Is to be called with each log that has grown; None where nobody needs to know."""

    @property
    def is_shut(self) -> bool:
        """Whether anything that was written by now still has to wait."""
        return self.group_commit is not None and self.group_commit.is_pending

    def wrote_file(self, path: str, directory: str) -> None:
        """A small file was replaced as a whole: what follows stands behind it as well."""
        if self.group_commit is not None:
            self.group_commit.wrote_file(path, directory)

    # answers

    def answer(self, then: OnDurable) -> None:
        """Behind all that is written by now. ``then`` takes whether it may be told: False where it may be lost."""
        if self.group_commit is None:
            then(True)
        else:
            self.group_commit.then(then)

    # effects

    def effect(self, then: Callable[[], None]) -> None:
        """Behind all that is written by now. It never happens where the disk has failed.

        A round of syncs with a damaged file has synced all others, so whoever waits asks again. Where the file is the waiting
        coordinator's own, its partition is offline by then.
        """

        def settled(is_durable: bool) -> None:
            if is_durable:
                then()
            elif self.group_commit is not None and not self.group_commit.has_failed:
                self.effect(then)

        if self.group_commit is None:
            then()
        else:
            self.group_commit.then(settled)

    def effect_behind(self, log: Log, offset: int, then: Callable[[], None]) -> None:
        """Behind the records of ``log`` below ``offset``.

        With one replica everything that is written is committed, so nothing waits for the high watermark yet.
        """
        assert offset <= log.high_watermark, f"{log.name}: {offset} is above the high watermark {log.high_watermark}"
        self.effect(then)

    def stop(self) -> None:
        """Let nothing more leave: the directory is about to be closed."""
        if self.group_commit is not None:
            self.group_commit.stop()
