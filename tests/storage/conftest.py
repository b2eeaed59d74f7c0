from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.storage.real_filesystem import RealFilesystem
from tests.support.logs import Logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    fs = RealFilesystem()
    yield Logs(fs, str(tmp_path / "t-0"))
    fs.close_files()
