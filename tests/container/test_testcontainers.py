"""Testcontainers' own container classes start the image on a stand-in for the container engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.container.committing import commit
from tests.container.engine import Engine
from tests.container.libraries import LIBRARIES, STARTED, environment
from tests.container.running import unshare
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

ENDS_TIMEOUT_S = 60


@pytest.mark.parametrize("library", LIBRARIES)
def test_testcontainers_class_starts_the_image(library: str, tmp_path: Path) -> None:
    try:
        unshare()
        command, more = LIBRARIES[library]()
    except Unavailable as missing:
        pytest.skip(str(missing))
    said = tmp_path / "stderr"
    with Engine(tmp_path) as engine, said.open("w") as stderr:
        process = subprocess.Popen(
            command,
            env=environment({**engine.environment, **more}),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            for name in STARTED[library.partition("-")[0]]:
                line = process.stdout.readline().split()
                assert line[:1] == [name], (line, said.read_text())
                assert commit(line[1]) == [b"committed"]
                process.stdin.write("\n")
                process.stdin.flush()
            assert process.wait(ENDS_TIMEOUT_S) == 0, said.read_text()
        finally:
            process.kill()
            process.communicate()
        assert engine.unknown == []
        assert engine.containers == {}
