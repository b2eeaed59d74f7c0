"""``ottla health`` for a list of addresses: checks all brokers at the same time, and reports each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread

from ottla.cli.command_config import connecting, has_command_config
from ottla.cli.health_check import Connect, ask, asked_again, plain
from ottla.cli.health_secured import reason_of, secured_by
from ottla.cli.output import note, show_json, show_line
from ottla.client.ready_line import NotReady


@dataclass(slots=True)
class BrokerHealth:
    """The health of one broker. ``reason`` says why the broker is not healthy; None for a healthy broker."""

    place: str
    reason: str | None
    warnings: list[str]


def check(places: Sequence[str], timeout_s: float, *, waits: bool, as_json: bool) -> int:
    """Print the result for each broker, and return exit code 0 if all are healthy, else 1."""
    # Read the settings in this thread, because other threads have no click context.
    connects = [secured_by(connecting(place)) if has_command_config() else plain for place in places]
    explains = not has_command_config()
    found: list[BrokerHealth] = [BrokerHealth(place, f"{place} was not checked", []) for place in places]
    threads = [
        # Daemon threads do not delay the end of the process after Ctrl-C.
        Thread(target=_check, args=(one, connect, timeout_s, waits, explains), daemon=True)
        for one, connect in zip(found, connects, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [one for one in found if one.reason is not None]
    if as_json:
        show_json({"bootstrap": ",".join(places), "healthy": not failed, "brokers": [_document(one) for one in found]})
        return 1 if failed else 0
    for one in found:
        if one.reason is not None:
            note(f"ottla: {one.reason}")
            continue
        show_line(f"{one.place} answers")
        for line in one.warnings:
            show_line(f"warning: {line}")
    return 1 if failed else 0


def _check(checked: BrokerHealth, connect: Connect, timeout_s: float, waits: bool, explains: bool) -> None:
    """Check a broker, and set the result. With ``explains``, find out whether the broker failed because it needs credentials."""
    place = checked.place
    try:
        if waits:
            checked.warnings = asked_again(lambda left_s: ask(place, left_s, connect), timeout_s)
        else:
            checked.warnings = ask(place, timeout_s, connect)
        checked.reason = None
    except NotReady as failure:
        checked.reason = str(reason_of(place, failure) if explains else failure)


def _document(checked: BrokerHealth) -> dict[str, object]:
    if checked.reason is not None:
        return {"bootstrap": checked.place, "healthy": False, "reason": checked.reason}
    return {"bootstrap": checked.place, "healthy": True, "warnings": checked.warnings}
