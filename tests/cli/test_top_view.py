"""The view of ``ottla top``: rates, order, and tables that fit the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ottla.cli.top_view import TopView, compared
from ottla.client.admin.activity import GroupSample, Sample, TransactionSample
from ottla.client.cluster import BrokerNode


def sample(
    taken_s: float,
    ends: dict[tuple[str, int], int],
    groups: tuple[tuple[str, int, int], ...] = (),
    transactions: tuple[tuple[str, int], ...] = (),
) -> Sample:
    """Return a sample. ``groups`` are names with the committed offset of t-0 and the lag."""
    return Sample(
        taken_s=taken_s,
        cluster_id="c" * 22,
        brokers=[BrokerNode(1, "h", 1)],
        partitions={topic: 1 for topic, _ in ends},
        internal=frozenset({"__consumer_offsets"}),
        leaderless=0,
        under_replicated=0,
        ends=ends,
        groups=[GroupSample(name, "classic", "Stable", lag, {("t", 0): committed}) for name, committed, lag in groups],
        transactions=[TransactionSample(name, "Ongoing", start_ms, 1) for name, start_ms in transactions],
        open_transactions=len(transactions),
    )


def drawn(view: TopView, rows: int | None, width: int = 80, problem: str = "") -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as shown:
        console.print(view.drawn(rows, problem))
    return shown.get().splitlines()


def test_top_command_shows_rates_as_differences_per_second() -> None:
    before = sample(10.0, {("t", 0): 100, ("__consumer_offsets", 0): 5}, (("g", 40, 60),))
    now = sample(12.0, {("t", 0): 150, ("__consumer_offsets", 0): 9, ("new", 0): 7}, (("g", 60, 90), ("young", 0, 150)))
    view = compared(before, now, internal=False)
    assert [(t.name, t.written_per_s) for t in view.topics] == [("t", 25.0), ("new", 0.0)]
    assert [(g.name, g.read_per_s, g.lag_change_per_s) for g in view.groups] == [("young", 0.0, None), ("g", 10.0, 15.0)]
    assert [t.name for t in compared(before, now, internal=True).topics] == ["t", "__consumer_offsets", "new"]


def test_top_command_shows_no_negative_rate_of_a_recreated_topic() -> None:
    view = compared(sample(0.0, {("t", 0): 100}, (("g", 90, 10),)), sample(1.0, {("t", 0): 3}, (("g", 0, 3),)), internal=False)
    assert (view.topics[0].written_per_s, view.groups[0].read_per_s) == (0.0, 0.0)


def test_top_command_shows_no_rates_without_a_second_sample() -> None:
    one = sample(5.0, {("t", 0): 100}, (("g", 1, 99),))
    assert compared(one, one, internal=False).topics[0].written_per_s == 0.0


@pytest.mark.parametrize("rows", [24, 16, 40])
def test_top_command_with_thousands_of_topics_fits_the_terminal(rows: int) -> None:
    ends = {(f"{'x' * 200}-{at}", 0): at for at in range(2_000)}
    groups = tuple((f"group-{at}", 0, at) for at in range(500))
    transactions = tuple((f"\x1b[31m{at}", at) for at in range(5))
    view = compared(sample(0.0, ends, groups, transactions), sample(1.0, ends, groups, transactions), internal=False)
    lines = drawn(view, rows, problem="the cluster does not answer")
    assert len(lines) <= rows + 1 and max(map(len, lines)) <= 80, "\n".join(lines)
    text = "\n".join(lines)
    assert "WRITTEN/S" in text and "LAG +/S" in text and "OPEN FOR" in text and "more" in text
    assert "\x1b" not in text


def test_top_command_without_a_terminal_shows_all_rows() -> None:
    ends = {(f"topic-{at}", 0): at for at in range(300)}
    view = compared(sample(0.0, ends), sample(1.0, ends), internal=False)
    assert sum("topic-" in line for line in drawn(view, None)) == 300
