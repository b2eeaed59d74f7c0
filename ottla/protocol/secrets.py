"""Which fields of messages and which configs are secrets, for output that people read or attach to bug reports."""

from __future__ import annotations

import re
from typing import Final

SECRET_FIELDS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password", "server_key", "stored_key"})
"""Fields of requests and metadata records that contain passwords, or data from which passwords can be guessed."""
HIDDEN: Final = "(hidden)"
"""Replaces the value of a secret."""
_SECRET_CONFIG: Final = re.compile(r"password|passphrase|secret|jaas|\.(key|token)$")


def is_secret_config(name: str) -> bool:
    """Whether a config with this name, with or without a listener's prefix, has a secret value.

    Names are compared with a pattern, because records and requests may have configs that the broker does not know.
    """
    return _SECRET_CONFIG.search(name) is not None
