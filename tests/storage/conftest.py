from __future__ import annotations

from pathlib import Path

import pytest

from storage.real_filesystem import RealFilesystem
from tests.storage.logs import Logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(RealFilesystem(), str(tmp_path / "t-0"))
