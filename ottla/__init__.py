"""ottla: a small broker that every stock Kafka client believes to be Apache Kafka."""

from __future__ import annotations

# Define the constant here, because importing `typing` would slow down the start of the command line; type checkers know its name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ottla.control.faults.apis import Api
    from ottla.control.remote import ControlError
    from ottla.protocol.errors import Code as Error
    from ottla.testing import recipes
    from ottla.testing.broker_clock import Snapshot
    from ottla.testing.cluster_handle import Cluster, ClusterFailed
    from ottla.testing.handle import Broker, BrokerFailed
    from ottla.testing.security.acls import Acl
    from ottla.testing.serialization import Record

__all__ = [
    "Acl",
    "Api",
    "Broker",
    "BrokerFailed",
    "Cluster",
    "ClusterFailed",
    "ControlError",
    "Error",
    "Record",
    "Snapshot",
    "__version__",
    "recipes",
]
__version__ = "0.1.0"


_MODULES = {
    "Acl": "ottla.testing.security.acls",
    "Api": "ottla.control.faults.apis",
    "Broker": "ottla.testing.handle",
    "BrokerFailed": "ottla.testing.handle",
    "Cluster": "ottla.testing.cluster_handle",
    "ClusterFailed": "ottla.testing.cluster_handle",
    "ControlError": "ottla.control.remote",
    "Error": "ottla.protocol.errors",
    "Record": "ottla.testing.serialization",
    "Snapshot": "ottla.testing.broker_clock",
    "recipes": "ottla.testing.recipes",
}
"""The module of each public name, which is imported on first use, so that the command line starts fast."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    from importlib import import_module

    module = import_module(_MODULES[name])
    return module if name == "recipes" else getattr(module, "Code" if name == "Error" else name)
