"""Describes what happened on the broker, for the report of a failed test: a timeline of a few lines, and a file with everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.explain.timeline import TimelineEvent
    from ottla.client.kafka_client import KafkaClient
    from ottla.control.remote import Remote
    from ottla.testing.handle import Broker

MAX_LINES = 12
"""Maximum number of lines of the timeline. With pytest's lines for a test of usual length, a report has at most 40 lines."""
MAX_LINE_CHARACTERS = 160
MAX_FILE_EVENTS = 1_000
"""Maximum number of newest events of each transactional id in the file about a failed test."""
MAX_IDS_READ = 200
_IN_LINES = frozenset({"event", "level", "timestamp"})
_IN_TIMELINE = "producer_fenced "
"""Beginning of log lines that are omitted if the timeline of transactions shows the same events."""

Timed = tuple[int, str]
"""A time in ms and a line."""


def failure_report(broker: Broker, logged_lines: int, since_ms: int, file: Path) -> list[str]:
    """Return the timeline of a broker since a test began, and write everything to ``file``. Returns no lines if nothing happened.

    ``logged_lines`` is the number of log lines before the test.
    """
    from ottla.control.remote import Remote

    logged = broker.logs_since(logged_lines)
    happened: list[Timed] = []
    problem = None
    if broker.is_running and not broker.is_paused:
        control = broker.ready["control"]
        try:
            happened = transactions_since(broker.open_client, since_ms, Remote(control["url"], control["token"]))
        except TimelineUnavailable as error:
            problem = str(error)
    unrepeated = [(ms, text) for ms, text in map(log_line, logged) if not (happened and text.startswith(_IN_TIMELINE))]
    lines = timeline_lines([*happened, *unrepeated])
    if problem is not None:
        lines.append(f"their transactions cannot be shown: {problem}")
    if not lines:
        return []
    shown = lines[-MAX_LINES:]
    rest = f"{len(lines) - len(shown):,} earlier lines and the log" if len(lines) > len(shown) else "the log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([f"{broker!r}", "", *lines, "", *logged, ""]), errors="backslashreplace")
    except OSError as error:
        return [*(_short(line) for line in shown), f"{rest} could not be written to {file}: {error.strerror}"]
    return [*(_short(line) for line in shown), f"{rest} are in {file}" if "and" in rest else f"{rest} is in {file}"]


def timeline_lines(happened: Sequence[Timed]) -> list[str]:
    """Format events in the order of their times."""
    # Sorting keeps the order of events with the same time, such as the marker and the end of a transaction.
    ordered = sorted(happened, key=lambda one: one[0])
    return [f"{_time(ms)}  {text}" for ms, text in ordered]


def log_line(line: str) -> Timed:
    """Return the time and the text of a line of the broker's log."""
    from ottla.cli.output import printable

    try:
        said = json.loads(line)
        at_ms = round(datetime.fromisoformat(said["timestamp"]).timestamp() * 1_000)
        fields = " ".join(f"{name}={value}" for name, value in said.items() if name not in _IN_LINES)
        level = "" if said["level"] in ("info", "debug") else f"{said['level'].upper()} "
        return at_ms, printable(f"{level}{said['event']} {fields}".rstrip())
    except (ValueError, KeyError, TypeError, AttributeError):
        # Python's own messages, such as the traceback of a crash, are not JSON.
        return _LAST_MS, printable(line)


_LAST_MS = 1 << 62
"""The time, in ms, of lines without a time, so that they are shown last."""


def _time(at_ms: int) -> str:
    return "            " if at_ms == _LAST_MS else f"{datetime.fromtimestamp(at_ms / 1_000):%H:%M:%S}.{at_ms % 1_000:03}"


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[: MAX_LINE_CHARACTERS - 3]}..."


class TimelineUnavailable(Exception):
    """The cluster does not describe its transactions."""


def transactions_since(open_client: Callable[[], KafkaClient], since_ms: int, control_api: Remote | None = None) -> list[Timed]:
    """Return the events of transactional ids since ``since_ms``. Raises `TimelineUnavailable` if the cluster does not respond.

    ``open_client`` opens a client of the cluster. The broker's ``control_api`` adds the clients of requests, errors, and the causes
    of fencing.
    """
    from ottla.cli.commands import Refused
    from ottla.cli.output import printable
    from ottla.cli.txn_history import history
    from ottla.client import ClientError
    from ottla.client.explain.timeline import timeline
    from ottla.control.remote import ControlError
    from ottla.control.timeline import merged

    happened: list[Timed] = []
    try:
        with open_client() as cluster:
            stored = [listing.transactional_id for listing in cluster.transactions()]
            # The logs do not contain an id whose requests were all rejected, but the control API knows such ids.
            asked = [] if control_api is None else [name for name, newest_ms in control_api.known_ids() if newest_ms >= since_ms]
            in_logs = set(stored)
            for name in list(dict.fromkeys([*asked, *stored]))[:MAX_IDS_READ]:
                logged = timeline(cluster.brokers, name) if name in in_logs else []
                events = merged(logged, history(control_api, name))
                events = [event for event in events if event.time_ms >= since_ms]
                happened += [(event.time_ms, printable(f"{name}: {_text(event)}")) for event in events[-MAX_FILE_EVENTS:]]
    except (ClientError, ControlError, Refused, OSError) as error:
        raise TimelineUnavailable(str(error)) from None
    return happened


def _text(event: TimelineEvent) -> str:
    from ottla.cli.txn_timeline import description, producer_text

    producer = producer_text(event)
    return f"{producer + ' ' if producer else ''}{description(event)} ({event.where})"
