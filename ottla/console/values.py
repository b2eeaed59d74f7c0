"""Maps each page's name to the function that reads its values.

State is read through `cluster_view`. Records, and a transactional id's events in the logs, are read with `ottla.client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.console.configs import configs
from ottla.console.finding import found
from ottla.console.groups import group, groups
from ottla.console.messages import messages
from ottla.console.overview import overview
from ottla.console.page_request import Asked
from ottla.console.schemas import schemas, subject
from ottla.console.shown_record import record
from ottla.console.steering import steering
from ottla.console.topics import topic, topics
from ottla.console.transactions import transaction, transactions

VALUES: Final[Mapping[str, Callable[[Asked], Any]]] = {
    "overview": overview,
    "topics": topics,
    "topic": topic,
    "messages": messages,
    "record": record,
    "groups": groups,
    "group": group,
    "transactions": transactions,
    "transaction": transaction,
    "steering": steering,
    "configs": configs,
    "schemas": schemas,
    "subject": subject,
    "found": found,
}
OF_OWN_BROKER: Final = frozenset({"steering"})
"""Pages that exist only for a broker in this process."""
OF_REGISTRY: Final = frozenset({"schemas", "subject"})
"""Pages that exist only in a console with a schema registry."""
