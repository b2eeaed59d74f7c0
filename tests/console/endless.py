"""A deadline that never expires, for tests that read a page's values."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

from ottla.console.deadline import Deadline

ENDLESS = cast(Deadline, SimpleNamespace(check=lambda: None, alone=nullcontext))
