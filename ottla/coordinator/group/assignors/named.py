"""Assignors by the names that clients and ``group.consumer.assignors`` use."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.group.assignors.members import Assignor
from ottla.coordinator.group.assignors.range import assign_ranges
from ottla.coordinator.group.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Assignors by name. The first is the default."""
