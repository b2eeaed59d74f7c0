"""Compares two samples of a cluster for ``ottla top``, as tables for a terminal or as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.output import NOTHING, printable
from ottla.client.durations import duration_text, elapsed_ms
from ottla.client.real_time import now_ms

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ottla.client.admin.activity import Sample, TransactionSample

HEADER_LINES: Final = 3
TABLE_LINES: Final = 3
"""Lines of a table besides its rows: an empty line, the names of the columns, and the line that counts omitted rows."""


@dataclass(slots=True, frozen=True)
class TopicRow:
    """A topic with its written records (offsets) per second. ``end`` is the sum of the log end offsets."""

    name: str
    partitions: int
    end: int
    written_per_s: float


@dataclass(slots=True, frozen=True)
class GroupRow:
    """A group with its lag, the change of the lag per second, and the records (offsets) read per second."""

    name: str
    group_type: str
    state: str
    lag: int | None
    read_per_s: float
    lag_change_per_s: float | None


@dataclass(slots=True, frozen=True)
class TopView:
    """The rows of the tables: topics by rate, groups by lag, transactions by age, each with the largest first."""

    now: Sample
    topics: list[TopicRow]
    groups: list[GroupRow]

    @property
    def transactions(self) -> list[TransactionSample]:
        return sorted(self.now.transactions, key=lambda one: (one.start_ms is None, one.start_ms))

    def document(self) -> dict[str, Any]:
        now = self.now
        return {
            "cluster_id": now.cluster_id,
            "brokers": len(now.brokers),
            "partitions": sum(now.partitions.values()),
            "leaderless": now.leaderless,
            "under_replicated": now.under_replicated,
            "topics": [
                {"topic": t.name, "partitions": t.partitions, "end": t.end, "written_per_s": round(t.written_per_s, 1)}
                for t in self.topics
            ],
            "groups": [
                {
                    "group": g.name,
                    "type": g.group_type,
                    "state": g.state,
                    "lag": g.lag,
                    "read_per_s": round(g.read_per_s, 1),
                    "lag_change_per_s": None if g.lag_change_per_s is None else round(g.lag_change_per_s, 1),
                }
                for g in self.groups
            ],
            "open_transactions": now.open_transactions,
            "transactions": [
                {
                    "transactional_id": t.transactional_id,
                    "state": t.state,
                    "start_ms": t.start_ms,
                    "partitions": t.partitions,
                }
                for t in self.transactions
            ],
        }

    def drawn(self, rows: int | None, problem: str = "") -> RenderableType:
        """Return the tables for a terminal with this number of rows, or complete tables for None."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [_header(self.now, self.topics)]
        if problem:
            parts.append(Text(problem, style="red", overflow="ellipsis", no_wrap=True))
        shares = _shares(rows, [len(self.topics), len(self.groups), len(self.transactions)])
        if self.topics:
            cells = [(t.name, f"{t.partitions:,}", f"{t.end:,}", _rate(t.written_per_s)) for t in self.topics]
            parts += _table(["TOPIC", "PARTITIONS", "END", "WRITTEN/S"], cells, shares[0])
        if self.groups:
            cells_of_groups = [
                (g.name, g.state, NOTHING if g.lag is None else f"{g.lag:,}", _rate(g.read_per_s), _change(g.lag_change_per_s))
                for g in self.groups
            ]
            parts += _table(["GROUP", "STATE", "LAG", "READ/S", "LAG +/S"], cells_of_groups, shares[1])
        if self.transactions:
            cells_of_transactions = [
                (t.transactional_id, t.state, f"{t.partitions:,}", _age(t.start_ms)) for t in self.transactions
            ]
            parts += _table(["TRANSACTION", "STATE", "PARTITIONS", "OPEN FOR"], cells_of_transactions, shares[2])
        return Group(*parts)


def compared(before: Sample, now: Sample, *, internal: bool) -> TopView:
    """Compare two samples. Rates are 0 if both are the same sample."""
    elapsed_s = now.taken_s - before.taken_s

    def per_s(change: int) -> float:
        return change / elapsed_s if elapsed_s > 0 else 0.0

    written: dict[str, int] = {}
    totals: dict[str, int] = {}
    for (topic, index), end in now.ends.items():
        totals[topic] = totals.get(topic, 0) + end
        # The partitions of a recreated topic begin at offset 0, so log end offsets may decrease.
        written[topic] = written.get(topic, 0) + max(0, end - before.ends.get((topic, index), end))
    topics = [
        TopicRow(name=name, partitions=count, end=totals.get(name, 0), written_per_s=per_s(written.get(name, 0)))
        for name, count in now.partitions.items()
        if internal or name not in now.internal
    ]
    earlier = {group.group_id: group for group in before.groups}
    groups = []
    for group in now.groups:
        old = earlier.get(group.group_id)
        committed = {} if old is None else old.committed
        read = sum(max(0, offset - committed.get(where, offset)) for where, offset in group.committed.items())
        change = None if old is None or old.lag is None or group.lag is None else per_s(group.lag - old.lag)
        groups.append(
            GroupRow(
                name=group.group_id,
                group_type=group.group_type,
                state=group.state,
                lag=group.lag,
                read_per_s=per_s(read),
                lag_change_per_s=change,
            )
        )
    return TopView(
        now=now,
        topics=sorted(topics, key=lambda t: (-t.written_per_s, -t.end, t.name)),
        groups=sorted(groups, key=lambda g: (-(g.lag or 0), g.name)),
    )


def _shares(rows: int | None, wanted: list[int]) -> list[int]:
    """Divide the rows of a terminal among tables, the smallest first, so that small tables are shown whole."""
    if rows is None:
        return wanted
    left = rows - HEADER_LINES - TABLE_LINES * sum(count > 0 for count in wanted)
    shares = [0] * len(wanted)
    tables = sorted((count, at) for at, count in enumerate(wanted) if count)
    for number, (count, at) in enumerate(tables):
        shares[at] = max(1, min(count, left // (len(tables) - number)))
        left -= shares[at]
    return shares


def _header(now: Sample, topics: list[TopicRow]) -> RenderableType:
    from rich.text import Text

    from ottla.client.wording import counted

    partitions = sum(now.partitions.values())
    rate = _rate(sum(topic.written_per_s for topic in topics))
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{printable(now.cluster_id)}: ", style="bold")
    text.append(
        f"{counted(len(now.brokers), 'broker')}, {counted(len(now.partitions), 'topic')}, {counted(partitions, 'partition')}"
    )
    text.append(f"\n{rate} records/s written, {counted(now.open_transactions, 'open transaction')}")
    if now.leaderless:
        text.append(f", {now.leaderless:,} without leader", style="red")
    if now.under_replicated:
        text.append(f", {now.under_replicated:,} under-replicated", style="yellow")
    return text


def _table(columns: list[str], rows: Sequence[tuple[str, ...]], most: int) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    table: Table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for at, column in enumerate(columns):
        is_text = at == 0 or column == "STATE"
        # On a small terminal only the column of names becomes narrower.
        table.add_column(column, justify="left" if is_text else "right", no_wrap=at > 0, overflow="ellipsis")
    for row in rows[:most]:
        table.add_row(*(Text(printable(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    parts: list[RenderableType] = [Text(""), table]
    if len(rows) > most:
        parts.append(Text(f"and {len(rows) - most:,} more", style="dim"))
    return parts


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 or not per_s else f"{per_s:.1f}"


def _change(per_s: float | None) -> str:
    if per_s is None:
        return NOTHING
    return f"{per_s:+,.0f}" if abs(per_s) >= 10 or not per_s else f"{per_s:+.1f}"


def _age(start_ms: int | None) -> str:
    elapsed = None if start_ms is None else elapsed_ms(start_ms, now_ms())
    return NOTHING if elapsed is None else duration_text(elapsed)
