"""ottla: a small broker that every stock Kafka client believes to be Apache Kafka."""

from __future__ import annotations

# Type checkers also know this constant outside of `typing`, whose import would slow down the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ottla.control.remote import ControlError
    from ottla.testing.broker_clock import Snapshot
    from ottla.testing.cluster_handle import Cluster, ClusterFailed
    from ottla.testing.handle import Broker, BrokerFailed
    from ottla.testing.security.acls import Acl

__all__ = ["Acl", "Broker", "BrokerFailed", "Cluster", "ClusterFailed", "ControlError", "Snapshot", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # These names are imported on first use, so that the command line starts fast.
    if name in ("Broker", "BrokerFailed", "ControlError", "Snapshot"):
        from ottla.testing import handle

        return getattr(handle, name)
    if name in ("Cluster", "ClusterFailed"):
        from ottla.testing import cluster_handle

        return getattr(cluster_handle, name)
    if name == "Acl":
        from ottla.testing.security import acls

        return acls.Acl
    raise AttributeError(name)
