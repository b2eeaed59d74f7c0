"""Events of a transactional id that no log contains: requests and their clients, errors, and fenced producers."""

from __future__ import annotations

from typing import Any

from ottla.client.explain.event_order import in_order
from ottla.client.explain.timeline import TimelineEvent
from ottla.client.wording import counted

REASONS = {
    "timeout": "the transaction timed out: the coordinator aborts it",
    "fenced": "a newer producer fenced it: the coordinator aborts it",
}
"""The reasons for decisions without an EndTxn request, by outcome."""


def client_text(client_id: str, client_host: str) -> str:
    return f"client {client_id or '(without an id)'} at {client_host}"


def holder_text(known: dict[str, Any] | None) -> str:
    """Describe the id's current owner. Returns an empty text for an unknown owner."""
    holder = (known or {}).get("holder")
    return "" if holder is None else client_text(holder["client_id"], holder["client_host"])


def merged(events: list[TimelineEvent], known: dict[str, Any] | None) -> list[TimelineEvent]:
    """Merge the events of the logs and of the control API by time.

    Decisions, markers and completions come from the logs. The control API adds requests, the reasons of decisions without a
    request, and refused markers.
    """
    added = [event for one in (known or {}).get("events", ()) if (event := _event(one)) is not None]
    return in_order(events, [_with_fences_behind(added)])


def _with_fences_behind(added: list[TimelineEvent]) -> list[TimelineEvent]:
    """Move each fencing after the InitProducerId request that caused it, because the history records the fencing first."""
    ordered: list[TimelineEvent] = []
    fences: list[TimelineEvent] = []
    for event in added:
        if event.kind == "fenced":
            fences.append(event)
            continue
        ordered.append(event)
        if event.kind == "request" and event.what.startswith("InitProducerId"):
            ordered += fences
            fences = []
    return ordered + fences


def _event(one: dict[str, Any]) -> TimelineEvent | None:
    kind, error = one["kind"], one.get("error", "")
    producer = (one.get("producer_id", -1), one.get("producer_epoch", -1))
    client = client_text(one["client_id"], one["client_host"]) if "client_host" in one else ""
    partitions = [(p["topic"], p["partition"]) for p in one.get("partitions", ())]
    where = f"from {client}" if client else "the broker"
    match kind:
        case "request":
            if producer[0] < 0 and not error:
                producer = (one.get("new_producer_id", -1), one.get("new_producer_epoch", -1))
            what = _request_text(one) + (f" is refused: {error}" if error else "")
            return TimelineEvent(one["time_ms"], "refused" if error else "request", what, where, producer, partitions)
        case "fenced":
            successor = f"producer {one['new_producer_id']} epoch {one['new_producer_epoch']}"
            what = f"is fenced by {successor}, {client}, the new owner of the id"
            return TimelineEvent(one["time_ms"], "fenced", what, where, producer)
        case "decided" if one.get("outcome") in REASONS:
            return TimelineEvent(one["time_ms"], "reason", REASONS[one["outcome"]], where, producer)
        case "markers" if error:
            return TimelineEvent(
                one["time_ms"], "refused", f"{one['outcome']} markers are refused: {error}", where, producer, partitions
            )
    return None


def _request_text(one: dict[str, Any]) -> str:
    words: list[str] = [one["api"]]
    if one.get("outcome"):
        words.append(one["outcome"])
    if one.get("group_id"):
        words.append(f"for group {one['group_id']}")
    named = one.get("partitions", ())
    words += [f"{p['topic']}:{p['partition']}" for p in named]
    if one.get("partition_count", 0) > len(named):
        words.append(f"and {counted(one['partition_count'] - len(named), 'more partition')}")
    return " ".join(words)
