"""What ``ottla serve`` has understood of its options, for a broker, a controller or a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.config.first_user import FirstUser
    from ottla.broker.config.settings import BrokerConfig
    from ottla.process import OwnerProcess


@dataclass(slots=True, frozen=True, kw_only=True)
class Start:
    """The arguments with which a broker, a controller or a cluster is started."""

    config: BrokerConfig
    features: dict[str, int]
    warnings: dict[str, str | None]
    """Settings without effect, and the setting that was probably meant."""
    first_users: list[FirstUser]
    faults_file: Path | None
    owner: OwnerProcess | None
    ready_file: Path | None
    as_json: bool
    log_level: str
