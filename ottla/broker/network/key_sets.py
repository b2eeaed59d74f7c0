"""The public keys of an identity provider, from a file or a URL (``sasl.oauthbearer.jwks.endpoint.url``).

Keys are loaded at the start, and again when a token names an unknown key, or arrives ``sasl.oauthbearer.jwks.endpoint.refresh.ms``
after the last load. Until new keys have arrived, the old keys are used.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.error import URLError
from urllib.request import urlopen

import structlog

from ottla.broker.config.definitions import ConfigError
from ottla.broker.loop.env import Env
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.security.sasl.signed_tokens import KeySet, KeySetError

TIMEOUT_S = 10.0
MAX_BYTES = 1 << 20
MISSED_INTERVAL_MS = 60_000
"""Minimum time in ms between two loads of the key set that unknown keys cause. Without it, tokens with invented key ids would cause
a load each (RefreshingHttpsJwks)."""
SCHEMES = ("file:", "https:", "http:")

log = structlog.get_logger("connection")


class KeySource:
    """The keys at one URL."""

    def __init__(self, env: Env, url: str, refresh_ms: int) -> None:
        """Begin to load the keys; keys in a file are loaded within this call. Raises `ConfigError`."""
        if not url.startswith(SCHEMES):
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {url!r} is not a URL; give file:/PATH or https://HOST/PATH")
        self._env, self._url, self._refresh_ms = env, url, refresh_ms
        self._keys: KeySet | None = None
        self._began_ms = env.steady_ms()
        self._is_loading = False
        self._errors = RepeatedErrors(env, log)
        if url.startswith("file:"):
            try:
                self._keys = KeySet(_read(url))
            except (OSError, KeySetError) as error:
                raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: cannot load {url}: {error}") from None
        else:
            self._load()

    def current(self) -> KeySet | None:
        """The loaded keys; None until the first keys have arrived."""
        if self._env.steady_ms() - self._began_ms >= self._refresh_ms:
            self._load()
        return self._keys

    def missed(self) -> None:
        """Load the keys again, because a token names an unknown key."""
        if self._env.steady_ms() - self._began_ms >= MISSED_INTERVAL_MS:
            self._load()

    def _load(self) -> None:
        if self._is_loading:
            return
        self._is_loading, self._began_ms = True, self._env.steady_ms()
        loaded: list[KeySet] = []

        def done(error: BaseException | None) -> None:
            self._is_loading = False
            if loaded:
                self._keys = loaded[0]
                self._errors.succeeded(self._url)
            else:
                self._errors.failed("keys_not_loaded", str(error), key=self._url, url=self._url)

        self._env.run_aside(_loader(self._url, loaded), done)


def _loader(url: str, loaded: list[KeySet]) -> Callable[[], None]:
    return lambda: loaded.append(KeySet(_read(url)))


def _read(url: str) -> bytes:
    try:
        with urlopen(url, timeout=TIMEOUT_S) as response:
            data: bytes = response.read(MAX_BYTES + 1)
    except (URLError, ValueError) as error:
        raise KeySetError(str(getattr(error, "reason", error))) from None
    if len(data) > MAX_BYTES:
        raise KeySetError(f"at most {MAX_BYTES} bytes are allowed")
    return data
