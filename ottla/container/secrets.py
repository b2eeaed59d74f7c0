"""Converts the variables with which apache/kafka configures TLS and SASL: names of files in a mounted directory, and a JAAS file.

The script ``configure`` of apache/kafka converts them in the same way: a name such as ``KAFKA_SSL_KEYSTORE_FILENAME`` becomes a
path in ``/etc/kafka/secrets``, and a password is read from the named file. ``KAFKA_OPTS`` contains the path of the JAAS file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.broker.config.definitions import ConfigError

SECRETS: Final = Path("/etc/kafka/secrets")
"""The directory at which containers of apache/kafka mount key stores and passwords."""
MAX_BYTES: Final = 1 << 20
LOGIN_FILE: Final = "-Djava.security.auth.login.config="
_PASSWORDS: Final = {"KEYSTORE": "KEYSTORE_PASSWORD", "KEY": "KEY_PASSWORD", "TRUSTSTORE": "TRUSTSTORE_PASSWORD"}
_QUOTED: Final = r'"(?:\\.|[^"\\])*"'
_COMMENT: Final = re.compile(r"(?<!\S)//[^\n]*|/\*.*?\*/", re.DOTALL)
_SECTION: Final = re.compile(rf"(?P<name>[\w.\-]+)\s*\{{(?P<modules>(?:{_QUOTED}|[^{{}}\"])*)\}}\s*;")
_MODULE: Final = re.compile(rf"(?:{_QUOTED}|[^;\"])+;")
_MECHANISMS: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_SERVER: Final = "KafkaServer"


def with_secrets(environment: Mapping[str, str], directory: Path = SECRETS) -> dict[str, str]:
    """Return the environment with the settings that secret files determine: key stores, passwords, and the JAAS file in KAFKA_OPTS.

    Settings in ``environment`` take precedence. Raises `ConfigError`.
    """
    converted = dict(environment)
    for store in ("KEYSTORE", "TRUSTSTORE"):
        name = converted.pop(f"KAFKA_SSL_{store}_FILENAME", "")
        if name:
            converted.setdefault(f"KAFKA_SSL_{store}_LOCATION", str(directory / name))
    for kind, setting in _PASSWORDS.items():
        variable = f"KAFKA_SSL_{kind}_CREDENTIALS"
        name = converted.pop(variable, "")
        if name:
            converted.setdefault(f"KAFKA_SSL_{setting}", _text(variable, directory / name).strip())
    for option in environment.get("KAFKA_OPTS", "").split():
        if option.startswith(LOGIN_FILE):
            path = Path(option.removeprefix(LOGIN_FILE))
            sections = _sections(_text("KAFKA_OPTS", path))
            # A JAAS section for one listener takes precedence over the section for all listeners.
            for name, modules in sorted(sections.items(), key=lambda section: section[0] == _SERVER):
                for listener in _listeners(converted, name):
                    for variable, module in _modules(listener, modules).items():
                        converted.setdefault(variable, module)
    return converted


def _text(variable: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES)
        return data.decode()
    except OSError as error:
        raise ConfigError(f"{variable}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{variable}: {path} is not UTF-8 text") from None


def _sections(text: str) -> dict[str, str]:
    return {found["name"]: found["modules"] for found in _SECTION.finditer(_COMMENT.sub(" ", text))}


def _listeners(environment: Mapping[str, str], section: str) -> list[str]:
    """Return the SASL listeners to which a JAAS section applies: all for ``KafkaServer``, one for ``sasl_ssl.KafkaServer``."""
    prefix, _, last = section.rpartition(".")
    if last != _SERVER:
        return []
    given = environment.get("KAFKA_LISTENERS") or environment.get("KAFKA_ADVERTISED_LISTENERS") or ""
    pairs = (pair.partition(":") for pair in environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "").split(","))
    protocols = {name.strip(): protocol.strip() for name, _, protocol in pairs}
    names = [element.partition("://")[0].strip() for element in given.split(",") if "://" in element]
    return [name for name in names if protocols.get(name, name).startswith("SASL") and prefix.lower() in ("", name.lower())]


def _modules(listener: str, modules: str) -> dict[str, str]:
    """Return the variables for ``listener.name.LISTENER.MECHANISM.sasl.jaas.config``, with the login module of each mechanism."""
    variables = {}
    for found in _MODULE.finditer(modules):
        module = " ".join(found[0].split())
        for mechanism in _MECHANISMS.get(module.partition(" ")[0].rpartition(".")[2], ()):
            key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            # In the variables of Kafka's image, _ means a dot, __ an underscore, and ___ a hyphen.
            variables["KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()] = module
    return variables
