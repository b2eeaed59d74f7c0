"""Random tokens from the operating system.

They replace Python's ``secrets``. Test projects may have their own ``secrets.py``, which ``python -m pytest`` imports in place of
Python's module. pytest itself works, because it does not need the module.
"""

from __future__ import annotations

import base64
import os
from typing import Final

TOKEN_BYTES: Final = 16
"""Number of random bytes of a token: 128 bits cannot be guessed."""


def random_token() -> str:
    """Return a new token of letters, digits, ``-`` and ``_``."""
    return base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).rstrip(b"=").decode()
