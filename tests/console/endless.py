"""A reading that may take as long as it likes."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

from ottla.console.deadline import Deadline

ENDLESS = cast(Deadline, SimpleNamespace(check=lambda: None, alone=nullcontext))
