"""Draws a chaos run as SVG: when driver and broker ran, what was killed, when transactions were committed, and the audit's
result."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shop.chaos import Events
    from shop.findings import Audit

WIDTH, LEFT, LANE, TOP = 960, 172, 26, 46
COLOURS: Final = {"life": "#4c78a8", "commit": "#54a24b", "kill": "#e45756", "text": "#333", "line": "#ddd"}
SECONDS_BETWEEN_TICKS: Final = (5, 10, 20, 30, 60, 120, 300, 600)
MAX_TICKS: Final = 12


def drawn(events: Events, audited: Audit, title: str) -> str:
    """Return the picture of a chaos run as SVG."""
    span_ms = max(1, events.ended_ms - events.began_ms)
    sinks = list(dict.fromkeys(sink for _, sink in sorted(events.commits)))
    lanes = ["driver", "executor", "broker", *sinks]

    def x(at_ms: int) -> float:
        return round(LEFT + (WIDTH - LEFT - 20) * min(1.0, max(0.0, (at_ms - events.began_ms) / span_ms)), 1)

    def y(lane: str) -> int:
        return TOP + lanes.index(lane) * LANE

    bottom = TOP + len(lanes) * LANE
    parts = [_text(12, 24, title, "bold")]
    legend = (("running", "life"), ("killed", "kill"), ("committed transaction", "commit"))
    parts += [_text(560 + 85 * number, 24, words, colour=COLOURS[kind]) for number, (words, kind) in enumerate(legend)]
    parts += [_text(12, y(lane) + 17, lane) for lane in lanes]
    parts += _axis(span_ms, bottom, x, events.began_ms)
    for what, begin, end in events.lives:
        width = max(1.0, round(x(end) - x(begin), 1))
        parts.append(f'<rect x="{x(begin)}" y="{y(what) + 6}" width="{width}" height="14" rx="2" fill="{COLOURS["life"]}"/>')
    parts += [
        f'<line x1="{x(at)}" x2="{x(at)}" y1="{y(sink) + 5}" y2="{y(sink) + 21}" stroke="{COLOURS["commit"]}" stroke-width="3"/>'
        for at, sink in events.commits
    ]
    parts += [
        f'<path d="M{x(at) - 6} {y(what) + 7}l12 12m0 -12l-12 12" stroke="{COLOURS["kill"]}" stroke-width="3"/>'
        for at, what in events.kills
    ]
    rows = _result(audited)
    parts += [_text(12, bottom + 44 + 18 * number, row, colour=colour) for number, (row, colour) in enumerate(rows)]
    height = bottom + 44 + 18 * len(rows)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def _axis(span_ms: int, bottom: int, x: object, began_ms: int) -> Iterable[str]:
    step_s = next((s for s in SECONDS_BETWEEN_TICKS if span_ms / 1_000 / s <= MAX_TICKS), SECONDS_BETWEEN_TICKS[-1])
    for second in range(0, span_ms // 1_000 + 1, step_s):
        at = x(began_ms + second * 1_000)  # type: ignore[operator]
        yield f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{bottom}" stroke="{COLOURS["line"]}"/>'
        yield _text(at - 10, bottom + 16, f"{second} s")


def _result(audited: Audit) -> Iterable[tuple[str, str]]:
    rows = []
    for stage in audited.stages:
        outcomes = ", ".join(f"{count:,} {name}" for name, count in stage.outcomes.items() if count)
        broken = "".join(f"; {found.rule}: {found.count:,}" for found in stage.findings)
        unit = "receipts" if stage.name == "transactions" else "inputs"
        rows.append((f"{stage.name}: {stage.inputs:,} {unit} = {outcomes}{broken}", COLOURS["kill" if broken else "text"]))
    verdict = "sound: each record is accounted for once" if audited.is_sound else "not sound"
    return [*rows, (verdict, COLOURS["commit" if audited.is_sound else "kill"])]


def _text(x: float, y: int, text: str, weight: str = "normal", colour: str = COLOURS["text"]) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" font-weight="{weight}">{escape(text)}</text>'
