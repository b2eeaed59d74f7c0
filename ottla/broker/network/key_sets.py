"""The public keys of an identity provider, from a file or a URL (``sasl.oauthbearer.jwks.endpoint.url``).

Keys are loaded at the start, again every ``sasl.oauthbearer.jwks.endpoint.refresh.ms``, and when a token names an unknown key. This
token is refused, as by Kafka. Until new keys have arrived, the old keys are used. A file that has changed is loaded before the next
token is verified (JwksFileVerificationKeyResolver).
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from http.client import InvalidURL
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import url2pathname

import structlog

from ottla.broker.config.definitions import ConfigError
from ottla.broker.loop.env import Env, Timer
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.client.security.http_deadline import ExchangeDeadline
from ottla.security.sasl.signed_tokens import KeySet, KeySetError

TIMEOUT_S = 10.0
"""Maximum time of a load, in seconds."""
MAX_BYTES = 1 << 20
UNKNOWN_KEY_MS = 60_000
"""Minimum time in ms between two loads of the key set that tokens with the same unknown key id cause (RefreshingHttpsJwks)."""
MAX_UNKNOWN_KEYS = 10
"""Maximum number of loads within `UNKNOWN_KEY_MS` that unknown keys cause. Without this limit, as in Kafka, each token with an
invented key id would cause a load."""
MAX_KEY_ID_CHARACTERS = 1_000
"""A longer key id causes no load (RefreshingHttpsJwks)."""
MIN_DELAY_MS = 100
"""Minimum time in ms between two loads, because the settings may be 0."""
MAX_REASON_CHARACTERS = 200
SCHEMES = ("file:", "https:", "http:")

log = structlog.get_logger("connection")


class KeySource:
    """The keys at one URL.

    The keys are loaded again ``refresh_ms`` after the last load. A failed load is repeated after ``retry_ms``; this time doubles up
    to ``max_retry_ms``.
    """

    def __init__(self, env: Env, lifecycle: Lifecycle, url: str, refresh_ms: int, retry_ms: int, max_retry_ms: int) -> None:
        """Begin to load the keys; keys in a file are loaded within this call. Raises `ConfigError`."""
        if not _is_url(url):
            shown = "the value" if {"@", "?"} & {*url} else repr(url)
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url: {shown} is not a URL that can be loaded; give file:/PATH or https://HOST/PATH,"
                " without a user"
            )
        self._env, self._lifecycle, self._url = env, lifecycle, url
        self._refresh_ms, self._retry_ms, self._max_retry_ms = refresh_ms, retry_ms, max_retry_ms
        self._next_retry_ms = retry_ms
        self._keys: KeySet | None = None
        self._is_loading = False
        self._timer: Timer | None = None
        self._unknown: dict[str, int] = {}
        """Times of the loads that unknown keys have caused within `UNKNOWN_KEY_MS`, by key id."""
        self._errors = RepeatedErrors(env, log)
        self._file = url2pathname(urlsplit(url).path) if url.startswith("file:") else ""
        self._version = _version(self._file)
        if self._file:
            try:
                self._keys = KeySet(_read(url, env.monotonic_ms))
            except (OSError, KeySetError) as error:
                raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: cannot load {_shown(url)}: {error}") from None
            self._refresh()
        else:
            self._load()

    def current(self) -> KeySet | None:
        """The loaded keys; None until the first keys have arrived. A changed file is read within this call."""
        if self._file and (version := _version(self._file)) != self._version:
            self._version = version
            try:
                self._keys = KeySet(_read(self._url, self._env.monotonic_ms))
                self._errors.succeeded(self._url)
            except (OSError, KeySetError) as error:
                self._failed(error)
        return self._keys

    def missed(self, key_id: str) -> None:
        """Load the keys again, because a token names an unknown key. `current` has already loaded a file that has changed."""
        if self._file:
            return
        now_ms = self._env.steady_ms()
        self._unknown = {key: at_ms for key, at_ms in self._unknown.items() if now_ms - at_ms < UNKNOWN_KEY_MS}
        is_allowed = key_id not in self._unknown and len(self._unknown) < MAX_UNKNOWN_KEYS
        if is_allowed and len(key_id) <= MAX_KEY_ID_CHARACTERS and not self._is_loading:
            self._unknown[key_id] = now_ms
            self._load()

    def _refresh(self) -> None:
        """Load the keys again after the refresh interval, by the broker's clock, which a test may advance."""
        self._timer = self._env.call_by_clock(max(self._refresh_ms, MIN_DELAY_MS), self._load)

    def _retry(self) -> None:
        """Load the keys again after a failure. The provider's time passes although a test has stopped the broker's clock."""
        self._timer = self._env.call_later(max(self._next_retry_ms, MIN_DELAY_MS), self._load)
        self._next_retry_ms = min(2 * self._next_retry_ms, self._max_retry_ms)

    def _load(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_loading or self._lifecycle.is_stopping:
            return
        self._is_loading = True
        loaded: list[KeySet] = []
        version = self._version

        def done(error: BaseException | None) -> None:
            self._is_loading = False
            if loaded:
                if version == self._version:
                    # Otherwise `current` has meanwhile loaded a newer file.
                    self._keys = loaded[0]
                self._next_retry_ms = self._retry_ms
                self._errors.succeeded(self._url)
                self._refresh()
            else:
                self._failed(error)
                self._retry()

        self._env.run_aside(_loader(self._url, loaded, self._env.monotonic_ms), done)

    def _failed(self, error: BaseException | None) -> None:
        self._errors.failed("keys_not_loaded", _described(error), key=self._url, url=_shown(self._url))


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme == "file" or (bool(parts.hostname) and parts.port != 0)
        return url.startswith(SCHEMES) and is_complete and "@" not in parts.netloc
    except ValueError:
        # The host or the port is malformed.
        return False


def _shown(url: str) -> str:
    """A URL without user, password and query, which may be secrets."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _loader(url: str, loaded: list[KeySet], monotonic_ms: Callable[[], float]) -> Callable[[], None]:
    return lambda: loaded.append(KeySet(_read(url, monotonic_ms)))


def _version(path: str) -> tuple[int, int] | None:
    """The time of the last change and the size of a file; None if there is no file."""
    if not path:
        return None
    try:
        state = Path(path).stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _described(error: BaseException | None) -> str:
    """Why keys could not be loaded. The texts of other exceptions may contain parts of the URL, which may have a password or token:
    the HTTP library shows an invalid URL, and a line that the provider sent."""
    is_clear = isinstance(error, KeySetError | OSError)
    return (str(error) if is_clear else type(error).__name__)[:MAX_REASON_CHARACTERS]


def _read(url: str, monotonic_ms: Callable[[], float]) -> bytes:
    too_late = f"the document did not arrive within {TIMEOUT_S:.0f} s"
    opener = ExchangeDeadline(TIMEOUT_S, lambda: monotonic_ms() / 1_000).opener()
    try:
        with opener.open(url, timeout=TIMEOUT_S) as response:
            data: bytes = response.read(MAX_BYTES + 1)
    except TimeoutError:
        raise KeySetError(too_late) from None
    except HTTPError as error:
        # Its own text is from the provider, or, after a redirect, has a URL that may contain a token.
        with error:
            phrase = HTTPStatus(error.code).phrase if error.code in set(HTTPStatus) else "unknown"
            raise KeySetError(f"the response has the status {error.code} ({phrase})") from None
    except URLError as error:
        raise KeySetError(too_late if isinstance(error.reason, TimeoutError) else str(error.reason)) from None
    except (InvalidURL, UnicodeError):
        raise KeySetError("the URL has characters that are not allowed") from None
    if len(data) > MAX_BYTES:
        raise KeySetError(f"at most {MAX_BYTES} bytes are allowed")
    return data
