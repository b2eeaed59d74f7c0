"""A fault as a value: which requests or transactions it matches, and how it changes their handling. See `docs/faults.md`."""

from __future__ import annotations

from math import inf
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from ottla.broker.hooks.interception import Point
from ottla.control.faults.api_names import (
    ANY,
    LARGEST_NUMBER,
    FaultError,
    api_key,
    error_code,
    one_of,
    request_type,
    shown,
    too_large,
    unknown,
    versions,
)
from ottla.control.faults.error_responses import can_be_partial
from ottla.control.faults.request_targets import names_groups, names_topics, names_transactions
from ottla.control.faults.responses import response_of
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS

MAX_DELAY_MS = 3_600_000
"""Maximum delay, in ms. To delay requests longer, use ``hold``."""

Moment = Literal["before", "after"]
PointName = Literal["before-prepare", "after-prepare", "between-markers", "before-offsets", "before-complete"]

WAYS = ("error", "answer", "cut", "drop_request", "drop_answer", "freeze", "hold", "kill", "refuse", "fail_handshake", "observe")
"""Fields that determine the outcome of a request. A fault has at most one of these fields, or both ``refuse`` and ``error``."""
PACES = ("delay_ms", "delay_answer_ms", "throttle_ms", "bytes_per_second")
"""Fields that slow down a request. A fault may have several of these fields, also with a field that determines the outcome. If no
response is sent, ``delay_answer_ms`` and ``throttle_ms`` are refused."""
_OF_REQUESTS = ("version", "client_id", "group", "fields")
_OF_CLIENTS = ("api", *_OF_REQUESTS, "topic", "partition", "transactional_id")
"""Conditions that exclude ``fail_handshake``, because a TLS handshake precedes all requests."""
_BY_MARKER = (Point.BETWEEN_MARKERS, Point.BEFORE_OFFSETS)


class Fault(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault, which hits the requests, transactions or TLS handshakes that meet all its conditions. Names are exact, or patterns
    with ``*``, ``?`` and ``[...]``.

    Raises `FaultError` for a fault that is contradictory or could never be triggered.
    """

    api: str | int = ANY
    """The API by Kafka's name or key, or ``*`` for any."""
    version: str | int | None = None
    """The versions of the API: ``3``, ``3-5`` or ``3+``."""
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    listener: str | None = None
    """The listener of a TLS handshake, such as ``SASL_SSL``. Only with ``fail_handshake``."""
    fields: dict[str, Any] = {}
    """Required values of the request's fields, by their names in Kafka's schemas: ``{"committed": true}`` for EndTxn."""

    nth: int = 1
    """The number of the first match that is hit, from 1. Earlier matches are handled normally."""
    times: int | UnsetType | None = UNSET
    """The maximum number of hits, or None for no limit. The default is no limit with ``freeze``, ``hold``, ``observe``,
    ``throttle_ms``, ``bytes_per_second`` or a probability below 1, otherwise 1."""
    probability: float = 1.0
    seed: int = 0
    """The seed of the random numbers for ``probability``. The same seed hits the same matches."""

    error: str | int | None = None
    """An error by Kafka's name or number."""
    answer: dict[str, Any] | None = None
    """A whole response, by the field names in Kafka's schema. Omitted fields have their defaults."""
    cut: Moment | None = None
    """Whether to close the connection before or after the request takes effect."""
    drop_request: bool = False
    """Whether the request has no effect and gets no response."""
    drop_answer: bool = False
    """Whether the request takes effect but gets no response. Later requests of the connection get responses."""
    freeze: bool = False
    """Whether the broker stops reading requests of a matching client until the fault is removed. Clients then time out."""
    hold: Moment | PointName | None = None
    """The point where the request, its response or the transaction waits until the fault is removed."""
    kill: Moment | PointName | None = None
    """The point where the broker's process ends without cleaning up, like after SIGKILL."""
    refuse: PointName | None = None
    """The point where a transaction's next step is refused, with ``error`` or a retriable error. The coordinator or the client then
    retries."""
    after_markers: int = 1
    """The number of markers that are written before a hit at ``between-markers``."""
    fail_handshake: bool = False
    """Whether TLS handshakes of new connections fail with the alert ``handshake_failure``."""
    observe: bool = False
    """Whether requests are only counted and stored for display."""

    delay_ms: float = 0
    """Delay of the request before it takes effect, in ms."""
    delay_answer_ms: float = 0
    """Delay of the response, in ms. Later responses on the connection wait as well."""
    throttle_ms: int = 0
    """The ``throttle_time_ms`` of the response. The connection's next request is handled only after that time (KIP-219)."""
    bytes_per_second: int = 0
    """The rate that all matching requests and responses share, in bytes per second."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def point(self) -> Point | None:
        """The point of a transaction where the fault acts, or None for a fault on requests."""
        at = self.refuse or self.hold or self.kill
        return None if at is None or at in get_args(Moment) else Point(at)

    @property
    def limit(self) -> int | None:
        """The maximum number of hits: ``times``, or its default if unset. None means no limit."""
        if self.times is not UNSET:
            return self.times
        lasts = self.freeze or self.hold or self.observe or self.throttle_ms or self.bytes_per_second or self.probability < 1
        return None if lasts else 1


def check(fault: Fault) -> None:
    """Check the combination of fields. Raises `FaultError`."""
    _check_types(fault)
    # A misspelt API is reported first, because the other checks depend on the API.
    api_key(fault.api)
    _check_numbers(fault)
    ways = [name for name in WAYS if getattr(fault, name) not in (None, False)]
    if "refuse" in ways and "error" in ways:
        ways.remove("error")
    paces = [name for name in PACES if getattr(fault, name)]
    if not ways and not paces:
        raise FaultError(f"the fault does nothing; give {one_of((*WAYS, *PACES))}")
    if len(ways) > 1:
        raise FaultError(f"{' and '.join(ways)} contradict each other; give one of them")
    if fault.after_markers != 1 and fault.point is not Point.BETWEEN_MARKERS:
        raise FaultError("after_markers applies only to hold, kill or refuse at between-markers")
    if fault.fail_handshake:
        _check_handshake(fault, paces)
    elif fault.listener is not None:
        raise FaultError("listener selects TLS handshakes; give fail_handshake, or leave listener out")
    elif fault.point is not None:
        _check_point(fault, fault.point, paces)
    else:
        _check_request(fault, ways, paces)


def _check_types(fault: Fault) -> None:
    """Check the types of fields, because a fault may be created in Python, where `msgspec` does not check them."""
    for field in _FIELDS:
        value = getattr(fault, field.name)
        if value is not field.default:
            if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
                raise too_large()
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                raise FaultError(f"{field.name}: {_in_words(field, value, error)}") from None


def _in_words(field: msgspec.structs.FieldInfo, value: object, error: Exception) -> str:
    choices = [choice for kind in get_args(field.type) for part in (kind, *get_args(kind)) for choice in get_args(part) or (part,)]
    names = [str(choice) for choice in dict.fromkeys(choices) if isinstance(choice, str)]
    return f"{shown(value)} is not one of {', '.join(names)}" if names else f"{error}: {shown(value)}".replace("`", "")


def _check_numbers(fault: Fault) -> None:
    if not 0 <= fault.probability <= 1:
        raise FaultError(f"probability {fault.probability:g} is not between 0 and 1; 0.1 hits about every tenth request")
    for name, least, most in (
        ("nth", 1, inf),
        ("after_markers", 1, inf),
        ("partition", 0, inf),
        ("delay_ms", 0, MAX_DELAY_MS),
        ("delay_answer_ms", 0, MAX_DELAY_MS),
        ("throttle_ms", 0, MAX_DELAY_MS),
        ("bytes_per_second", 0, inf),
    ):
        value = getattr(fault, name)
        if value is not None and not least <= value <= most:
            bounds = f"at least {least}" if most == inf else f"between {least} and {most:,}"
            raise FaultError(f"{name} {value:g} must be {bounds}")
    if isinstance(fault.times, int) and fault.times < 1:
        raise FaultError(f"times {fault.times} must be at least 1; give null for no limit")


def _check_handshake(fault: Fault, paces: list[str]) -> None:
    given = [name for name in _OF_CLIENTS if getattr(fault, name) not in (None, {}, ANY)] + paces
    if given:
        raise FaultError(f"a TLS handshake precedes all requests: leave {one_of(given)} out; listener selects the handshakes")


def _check_point(fault: Fault, point: Point, paces: list[str]) -> None:
    given = [name for name in _OF_REQUESTS if getattr(fault, name)] + ["api"] * (api_key(fault.api) is not None) + paces
    if given:
        raise FaultError(
            f"{point} is a step of a transaction, not a request: leave {one_of(given)} out; transactional_id selects the"
            " transaction"
        )
    if point not in _BY_MARKER and (fault.topic is not None or fault.partition is not None):
        raise FaultError(f"no marker is written at {point}: leave topic and partition out, or use between-markers")
    if fault.refuse is not None:
        _check_refusal(fault, point)


def _check_refusal(fault: Fault, point: Point) -> None:
    if point is Point.AFTER_PREPARE:
        raise FaultError(
            "nothing can be refused after-prepare, because the transaction is decided; use hold there, or refuse between-markers"
        )
    # The import of the coordinators takes a while, and most processes that create faults do not need it.
    from ottla.broker.coordinators.markers import RETRIABLE_MARKER_CODES

    if fault.error is not None and point in _BY_MARKER and error_code(fault.error) not in RETRIABLE_MARKER_CODES:
        right = one_of(sorted(code.name for code in RETRIABLE_MARKER_CODES))
        raise FaultError(f"a marker that is refused with {fault.error} is not sent again; give {right}")


def refusal_code(fault: Fault) -> Code:
    """Return the error with which a step of a transaction is refused."""
    if fault.error is not None:
        return Code(error_code(fault.error))
    return Code.NOT_LEADER_OR_FOLLOWER if fault.point in _BY_MARKER else Code.COORDINATOR_NOT_AVAILABLE


def _check_request(fault: Fault, ways: list[str], paces: list[str]) -> None:
    key = api_key(fault.api)
    code = None if fault.error is None else error_code(fault.error)
    first, last = (0, 0) if fault.version is None else versions(fault.version)
    if fault.freeze and (fault.times is not UNSET or fault.nth != 1 or fault.probability < 1 or paces):
        raise FaultError("freeze lasts until the fault is removed: leave times, nth, probability, delays and throttles out")
    if (fault.cut or fault.drop_request or fault.drop_answer or fault.kill) and (fault.delay_answer_ms or fault.throttle_ms):
        raise FaultError(f"with {ways[0]} no response is sent, so delay_answer_ms and throttle_ms have no effect; use delay_ms")
    if key is None:
        if fault.answer is not None or fault.fields:
            raise FaultError(f"{'answer' if fault.answer is not None else 'fields'} needs one api, such as api: EndTxn")
        return
    name, request = APIS[key].name, request_type(key)
    if fault.version is not None and (first > APIS[key].newest_version or last < APIS[key].min_version):
        raise FaultError(f"{name} has the versions {APIS[key].min_version} to {APIS[key].newest_version}, not {fault.version}")
    for field, is_named in (("topic", names_topics), ("group", names_groups), ("transactional_id", names_transactions)):
        if getattr(fault, field) is not None and not is_named(request):
            raise FaultError(
                f"{name} names no {field}, so the fault would never be triggered; leave {field} out, or use another api"
            )
    if fault.partition is not None and not names_topics(request):
        raise FaultError(
            f"{name} names no partition, so the fault would never be triggered; leave partition out, or use another api"
        )
    if code is not None and (fault.topic is not None or fault.partition is not None) and not can_be_partial(key):
        raise FaultError(f"a response to {name} has no field for the error of one topic; leave topic and partition out")
    for field in fault.fields:
        if field not in request.__struct_fields__:
            raise unknown(f"field of {name}", field, request.__struct_fields__)
    if fault.answer is not None:
        response_of(key, fault.answer)


_FIELDS = msgspec.structs.fields(Fault)
