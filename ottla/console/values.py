"""The values of the pages, by the pages' names.

They are read through `cluster_view`; records, and the events of a transactional id in the logs, with `ottla.client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.console.groups import group, groups
from ottla.console.messages import messages
from ottla.console.overview import overview
from ottla.console.page_request import Asked
from ottla.console.steering import steering
from ottla.console.topics import topic, topics
from ottla.console.transactions import transaction, transactions

VALUES: Final[Mapping[str, Callable[[Asked], Any]]] = {
    "overview": overview,
    "topics": topics,
    "topic": topic,
    "messages": messages,
    "groups": groups,
    "group": group,
    "transactions": transactions,
    "transaction": transaction,
    "steering": steering,
}
