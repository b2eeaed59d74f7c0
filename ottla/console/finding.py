"""The values ``found`` of the search dialog: topics, groups and transactional ids whose name contains a text."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any, Final

from ottla.console.page_request import Asked

FOUND_SHOWN: Final = 10
"""Maximum number of topics, of groups and of transactional ids in a result."""


def found(asked: Asked) -> dict[str, Any]:
    """Return the names that contain the text. Names that begin with the text come first, then short names."""
    match = asked.query.get("match", "").lower()
    groups, transactions = asked.view.groups(), asked.view.transactions()
    return {
        "topics": _best(match, (topic.name for topic in asked.view.topics())),
        "groups": _best(match, (group.group_id for group in groups.rows)),
        "transactions": _best(match, (one.transactional_id for one in transactions.rows)),
        "missing": [*groups.missing, *transactions.missing],
    }


def _best(match: str, names: Iterable[str]) -> list[str]:
    def rank(name: str) -> tuple[bool, int, str]:
        return not name.lower().startswith(match), len(name), name

    return nsmallest(FOUND_SHOWN, (name for name in names if match in name.lower()), key=rank)
