"""The result of one check of `ottla doctor` or `ottla spark doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed"]
"""``ok``: what was checked works; ``warning``: it may not work; ``failed``: it does not work."""


@dataclass(slots=True, frozen=True)
class Finding:
    """The result of one check: what was found, and what to do. ``remedy`` is empty if the check found no problem."""

    check: str
    status: Status
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding(check=check, status="ok", text=text)


def warning(check: str, text: str, remedy: str) -> Finding:
    return Finding(check=check, status="warning", text=text, remedy=remedy)


def failed(check: str, text: str, remedy: str) -> Finding:
    return Finding(check=check, status="failed", text=text, remedy=remedy)
