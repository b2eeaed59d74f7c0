"""History of the clients in chaos tests: their attempts, and the responses that they received.

Each actor writes one JSON line per event as soon as it happens, so that the lines survive a kill of the process. Times are from
the machine's monotonic clock, in seconds.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TextIO

from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.history import Attempt, History, OffsetsRead, ProducerSession, TriedRecord, Watched


class Scribe:
    """Writes the events of one actor to its history file."""

    def __init__(self, path: Path, actor: str, transactional_id: str, group: str | None) -> None:
        self._file: TextIO = path.open("a")
        self._common = {"actor": actor, "id": transactional_id, "group": group}

    def note(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"event": event, "s": time.monotonic(), **self._common, **fields}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(paths: list[Path]) -> History:
    """Read the history files of actors. An incomplete final line, which a kill has truncated, is skipped."""
    history = History()
    for path in sorted(paths):
        open_by: dict[tuple[str, int, int], Attempt] = {}
        watched: dict[TopicPartition, Watched] = {}
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line["event"] == "read":
                for topic, partition, offset, value in line["records"]:
                    where = (topic, partition)
                    if where not in watched:
                        watched[where] = Watched(line["actor"], where)
                        history.watched.append(watched[where])
                    watched[where].records.append((offset, value))
            else:
                _take(history, open_by, line)
    history.sessions.sort(key=lambda s: s.initialised_s)
    return history


def _take(history: History, open_by: dict[tuple[str, int, int], Attempt], line: dict[str, Any]) -> None:
    event = line["event"]
    if event == "initialised":
        history.sessions.append(ProducerSession(line["id"], line["actor"], line["session"], line["s"]))
    elif event == "offsets read":
        history.offsets_read.append(OffsetsRead(line["group"], line["asked_s"], _offsets(line["offsets"])))
    elif event == "fenced":
        history.fenced += 1
    elif event == "trouble":
        history.troubles.append(f"{line['actor']}: {line['error']}")
    elif event == "begin":
        attempt = Attempt(
            transactional_id=line["id"],
            actor=line["actor"],
            session=line["session"],
            number=line["number"],
            records=[TriedRecord((t, p), value, tuple(source) if source else None) for t, p, value, source in line["records"]],
            group=line["group"] if line["offsets"] else None,
            offsets=_offsets(line["offsets"]),
            is_transaction=line["is_transaction"],
            commit_asked_s=None if line["is_transaction"] else line["s"],
        )
        open_by[attempt.actor, attempt.session, attempt.number] = attempt
        history.attempts.append(attempt)
    elif event in ("commit asked", "committed", "ended"):
        attempt = open_by[line["actor"], line["session"], line["number"]]
        if event == "commit asked":
            attempt.commit_asked_s = line["s"]
        else:
            attempt.ended_s = line["s"]
            attempt.was_answered_committed = event == "committed"


def _offsets(listed: list[tuple[str, int, int]]) -> dict[TopicPartition, int]:
    return {(topic, partition): offset for topic, partition, offset in listed}
