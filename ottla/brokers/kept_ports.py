"""The ports of a cluster's nodes, which stay the same over restarts.

Clients and other nodes know the ports, so a chosen port is stored in a file of the data directory, and used again unless another
process listens on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ottla.storage.filesystem import Filesystem

PORTS_FILE = "ports.json"
LARGEST_PORT = 65_535


class KeptPorts:
    """Chooses and stores the nodes' ports. ``free_port`` returns any free port of a host; ``is_free`` returns whether a port is
    free.
    """

    def __init__(
        self, fs: Filesystem, data_dir: str, *, free_port: Callable[[str], int], is_free: Callable[[str, int], bool]
    ) -> None:
        self._fs = fs
        self._path = f"{data_dir}/{PORTS_FILE}"
        self._free_port = free_port
        self._is_free = is_free
        self._kept = self._read()
        self._chosen: dict[str, int] = {}

    def _read(self) -> dict[str, int]:
        """Read the stored ports. Returns no ports if the file is missing or damaged; new ports are then chosen."""
        try:
            noted = json.loads(self._fs.read_file(self._path) or b"{}")
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(noted, dict):
            return {}
        return {name: port for name, port in noted.items() if type(port) is int and 0 < port <= LARGEST_PORT}

    def port(self, name: str, host: str) -> int:
        """Return the port of the node ``name`` on ``host``: the stored port, or a new port that no other node has."""
        kept = self._kept.get(name, 0)
        if not kept or kept in self._chosen.values() or not self._is_free(host, kept):
            # Stored ports of other nodes are reserved.
            taken = {*self._chosen.values(), *self._kept.values()}
            while (kept := self._free_port(host)) in taken:
                pass
        self._chosen[name] = kept
        return kept

    def save(self) -> None:
        """Store the ports for the next start. The directory must exist. Raises OSError."""
        if self._chosen:
            self._fs.write_file(self._path, json.dumps({**self._kept, **self._chosen}).encode())
