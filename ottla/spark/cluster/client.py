"""Creates the client of the sink and of the jobs. By default the client requires transaction version 2 (KIP-890), with which
processes can share a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.client.security.client_config import Connecting

CLIENT_ID: Final = "ottla-pipeline"
TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 0.05
"""Maximum pause, in seconds, before a failed request is sent again."""
OLDEST: Final = {"EndTxn": 5, "Produce": 12, "TxnOffsetCommit": 5}
"""The lowest version of each request that supports transaction version 2 (KIP-890)."""


def cluster_client(connecting: Connecting, timeout_s: float = TIMEOUT_S, oldest: Mapping[str, int] = OLDEST) -> BrokerConnections:
    """Return a client of a cluster. ``oldest`` has the version of each request that a broker must support at least.

    Raises `PipelineError` for a bootstrap that is not a list of addresses.
    """
    return BrokerConnections(
        connecting.bootstrap,
        timeout_s=timeout_s,
        client_id=CLIENT_ID,
        connecting=connecting,
        oldest=oldest,
        longest_pause_s=PAUSE_S,
        waits=True,
    )
