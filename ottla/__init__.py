"""ottla: a small broker that every stock Kafka client believes to be Apache Kafka."""

from __future__ import annotations

# That of `typing`, which is not imported here: the command line is to begin at once.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ottla.control.remote import ControlError
    from ottla.handle import Broker, BrokerFailed, Snapshot

__all__ = ["Broker", "BrokerFailed", "ControlError", "Snapshot", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The command line starts faster without what only a user's program needs.
    if name in ("Broker", "BrokerFailed", "ControlError", "Snapshot"):
        from ottla import handle

        return getattr(handle, name)
    raise AttributeError(name)
