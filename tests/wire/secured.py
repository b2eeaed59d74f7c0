"""A broker process whose listeners have TLS and SASL, and clients of it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trustme

from tests.client.security.certificates import pem_of, store

LOGIN = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "alice", "secret, of alice"
START_TIMEOUT_S = 60


class SecuredBroker:
    """A broker with one listener for each security protocol. Its log and its data are in the test's directory."""

    def __init__(self, directory: Path, more: Mapping[str, str] | None = None, password: str = PASSWORD, user: str = USER) -> None:
        authority = self.authority = trustme.CA()
        self.trusted = store(directory / "ca.pem", authority.cert_pem.bytes().decode())
        server = store(directory / "server.pem", pem_of(authority.issue_cert("localhost", "127.0.0.1"), "of the key"))
        self.own = store(directory / "client.pem", pem_of(authority.issue_cert(common_name="shop")))
        self.strange = store(directory / "strange.pem", pem_of(trustme.CA().issue_cert(common_name="shop")))
        settings: dict[str, str] = {
            "listeners": ",".join(f"{name}://localhost:0" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server,
            "ssl.key.password": "of the key",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?)(?:,.*)?$/$1/",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            of = f"listener.name.{listener}"
            settings |= {
                f"{of}.plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
                f"{of}.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
            }
        settings |= more or {}
        properties = directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.log = directory / "log"
        command = [sys.executable, "-m", "ottla", "serve", str(properties), "--data-dir", str(directory / "data")]
        command += ["--log-level", "debug", "--user", f"{user}:{password}", "--owner-pid", str(os.getpid())]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        self.ready: dict[str, Any] = json.loads(line)
        self.listening: dict[str, str] = self.ready["listening"]
        self.pid = self._process.pid

    @property
    def bootstrap(self) -> str:
        """The address of the plain listener."""
        return self.listening["PLAINTEXT"]

    def address(self, protocol: str) -> tuple[str, int]:
        host, _, port = self.listening[protocol].rpartition(":")
        return host, int(port)

    def context(self, certificate: str | None = None) -> ssl.SSLContext:
        """The TLS context of a client that trusts this broker."""
        context = ssl.create_default_context(cafile=self.trusted)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=START_TIMEOUT_S)
