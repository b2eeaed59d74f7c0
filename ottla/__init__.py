"""ottla: a small broker that every stock Kafka client believes to be Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.handle import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The command line starts faster without what only a user's program needs.
    if name in ("Broker", "BrokerFailed"):
        from ottla import handle

        return getattr(handle, name)
    raise AttributeError(name)
