"""Testcontainers' own container classes start the image on a stand-in for the container engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import trustme

from tests.client.security.certificates import pkcs12_store
from tests.container.committing import commit
from tests.container.engine import Engine
from tests.container.libraries import LIBRARIES, STARTED, environment
from tests.container.running import unshare
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

ENDS_TIMEOUT_S = 60
USER, USER_PASSWORD, STORE_PASSWORD = "app-user", "app-pass", "of the store"


class Securing:
    """The certificate authority and key store of containers whose name begins with ``secured``, and the settings of a client."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self._trusted, store = directory / "ca.pem", directory / "server.pfx"
        authority.cert_pem.write_to_path(str(self._trusted))
        pkcs12_store(store, authority, authority.issue_cert("localhost", "127.0.0.1"), STORE_PASSWORD)
        self.environment = {"KEY_STORE": str(store), "KEY_STORE_PASSWORD": STORE_PASSWORD, "USER_PASSWORD": USER_PASSWORD}

    def of_client(self, name: str) -> dict[str, str]:
        if not name.startswith("secured"):
            return {}
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._trusted),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": USER_PASSWORD,
        }


@pytest.mark.parametrize("library", LIBRARIES)
def test_testcontainers_class_starts_the_image(library: str, tmp_path: Path) -> None:
    try:
        unshare()
        command, more = LIBRARIES[library]()
    except Unavailable as missing:
        pytest.skip(str(missing))
    said, securing = tmp_path / "stderr", Securing(tmp_path)
    with Engine(tmp_path) as engine, said.open("w") as stderr:
        process = subprocess.Popen(
            command,
            env=environment({**engine.environment, **securing.environment, **more}),
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
                assert commit(line[1], securing.of_client(name)) == [b"committed"]
                process.stdin.write("\n")
                process.stdin.flush()
            assert process.wait(ENDS_TIMEOUT_S) == 0, said.read_text()
        finally:
            process.kill()
            process.communicate()
        assert engine.unknown == []
        assert engine.containers == {}
