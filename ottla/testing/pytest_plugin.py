"""Fixtures for tests against a broker: ``ottla``, ``ottla_bootstrap``, ``ottla_records``, ``ottla_topic``, ``ottla_group``; and
``ottla_cluster`` for tests against several brokers.

``@pytest.mark.ottla(settings={...}, features={...}, fresh=True, clock="manual")`` says which broker a test wants, and with
``brokers=3`` which cluster. Tests with equal
wishes share one broker in each xdist worker; for a test with ``fresh`` the broker is reset first. With ``--ottla-bootstrap`` or
``OTTLA_BOOTSTRAP`` the same tests run against an existing broker, such as Apache Kafka, and tests that want a broker of their own
are skipped.

Nothing of the broker is imported here. The broker runs in a process of its own, which starts when the first test asks for it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.client.records import ConsumedRecord
    from ottla.testing.cluster_handle import Cluster
    from ottla.testing.handle import Broker

MAX_BROKERS = 8
"""How many brokers of a session run at once. Each takes some 45 MiB."""
MAX_CLUSTERS = 2
DEFAULT_CLUSTER_BROKERS = 3
MAX_REPORTED_LINES = 200
"""How many of the newest lines of the broker's log the report of a failed test has."""
_BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
_OPTIONS: dict[str, tuple[type, ...]] = {
    "settings": (Mapping,),
    "features": (Mapping,),
    "fresh": (bool,),
    "clock": (str,),
    "brokers": (int,),
}
"""The options of the marker and their types."""
_CLOCKS = ("machine", "manual")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRequest:
    """The broker that a test wants. Equal wishes get the same broker."""

    settings: tuple[tuple[str, str], ...] = ()
    features: tuple[tuple[str, int], ...] = ()
    clock: str = _CLOCKS[0]
    broker_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A test's broker, and its state before the test."""

    broker: Broker
    logged_lines: int
    now_ms: int


class External:
    """A broker that existed before the tests. It has the methods of `ottla.Broker` that work with every Kafka broker."""

    def __init__(self, bootstrap: str) -> None:
        from ottla.testing.cluster_queries import Questions, wait_for

        self.bootstrap = bootstrap
        questions = Questions(lambda: bootstrap)
        self.create_topic = questions.create_topic
        self.records = questions.records
        self.transaction = questions.transaction
        self.lag = questions.lag
        self.wait_for = wait_for

    def __repr__(self) -> str:
        return f"<the broker at {self.bootstrap}>"


@dataclass(slots=True)
class SessionBrokers:
    """The brokers of one session and worker."""

    running: dict[BrokerRequest, Broker] = field(default_factory=dict)

    def get(self, wanted: BrokerRequest, *, is_fresh: bool) -> Broker:
        from ottla.testing.handle import Broker

        broker = self.running.pop(wanted, None)
        if broker is None:
            if len(self.running) >= MAX_BROKERS:
                # This is the broker whose last use is the longest ago.
                self.running.pop(next(iter(self.running))).close()
            broker = Broker(settings=dict(wanted.settings), features=dict(wanted.features), clock=wanted.clock)
        self.running[wanted] = broker
        if not broker.is_running:
            # The broker is new, or a test has stopped or killed it.
            broker.start()
        if broker.is_paused:
            broker.resume()
        if is_fresh:
            broker.reset()
        return broker

    def close(self) -> None:
        for broker in self.running.values():
            broker.close()


@dataclass(slots=True)
class Clusters:
    """The clusters of one session and worker. Equal wishes get the same one."""

    running: dict[BrokerRequest, Cluster] = field(default_factory=dict)

    def get(self, wanted: BrokerRequest) -> Cluster:
        from ottla.testing.cluster_handle import Cluster

        cluster = self.running.pop(wanted, None)
        if cluster is None:
            if len(self.running) >= MAX_CLUSTERS:
                self.running.pop(next(iter(self.running))).close()
            cluster = Cluster(wanted.broker_count, settings=dict(wanted.settings), features=dict(wanted.features))
        self.running[wanted] = cluster
        if not cluster.is_running:
            cluster.start()
        # The test before may have killed or paused brokers.
        cluster.heal()
        return cluster

    def close(self) -> None:
        for cluster in self.running.values():
            cluster.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla", "a Kafka broker for tests")
    group.addoption(
        "--ottla-bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get(_BOOTSTRAP_VARIABLE) or None,
        help=f"run against the broker at this address instead (default: ${_BOOTSTRAP_VARIABLE}, else ottla)",
    )
    group.addoption(
        "--ottla-set", metavar="KEY=VALUE", action="append", default=[], help="a setting of every broker; may be given again"
    )
    parser.addini("ottla_settings", "settings of every broker, a line KEY=VALUE each", type="linelist", default=[])
    parser.addini("ottla_features", "feature levels of every broker, a line NAME=LEVEL each", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "ottla(settings=None, features=None, fresh=False, clock='machine', brokers=3): the broker that the fixture ottla gives to"
        " a test, or the cluster that ottla_cluster gives",
    )


def _pairs(lines: list[str], where: str) -> dict[str, str]:
    """The keys and values of lines ``KEY=VALUE``. Raises `pytest.UsageError`."""
    pairs = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"{where}: {line!r} is not NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _marked(item: pytest.Item) -> dict[str, Any]:
    """The options of a test's markers, in which a nearer marker wins. Raises `pytest.UsageError`."""
    options: dict[str, Any] = {}
    for marker in item.iter_markers("ottla"):
        if marker.args:
            raise pytest.UsageError(f"{item.nodeid}: the options of the marker ottla have names: {', '.join(_OPTIONS)}")
        for name, value in marker.kwargs.items():
            if name not in _OPTIONS:
                raise pytest.UsageError(f"{item.nodeid}: the marker ottla has no option {name!r}; there are {', '.join(_OPTIONS)}")
            is_good = isinstance(value, _OPTIONS[name]) and (name != "clock" or value in _CLOCKS)
            if value is not None and not is_good:
                raise pytest.UsageError(f"{item.nodeid}: the marker ottla wants {name}={_EXAMPLES[name]}, not {value!r}")
            options.setdefault(name, value)
    return options


_EXAMPLES = {
    "settings": '{"num.partitions": 3}',
    "features": '{"transaction.version": 2}',
    "fresh": "True",
    "clock": '"manual"',
    "brokers": "3",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _marked(item)


def _wanted(config: pytest.Config, options: Mapping[str, Any]) -> BrokerRequest:
    settings = {
        **_pairs(config.getini("ottla_settings"), "ottla_settings"),
        **_pairs(config.getoption("--ottla-set"), "--ottla-set"),
        **{str(name): _text(value) for name, value in (options.get("settings") or {}).items()},
    }
    features = {**_pairs(config.getini("ottla_features"), "ottla_features"), **(options.get("features") or {})}
    return BrokerRequest(
        settings=tuple(sorted(settings.items())),
        features=tuple(sorted(_levels(features).items())),
        clock=options.get("clock") or _CLOCKS[0],
        broker_count=options.get("brokers") or 1,
    )


def _levels(features: Mapping[str, Any]) -> dict[str, int]:
    """The checked levels. Raises `pytest.UsageError`."""
    try:
        return {str(name): int(level) for name, level in features.items()}
    except (TypeError, ValueError):
        raise pytest.UsageError(f"features are NAME=LEVEL with a number for the level, not {dict(features)}") from None


@pytest.fixture(scope="session")
def _ottla_brokers() -> Iterator[SessionBrokers]:
    brokers = SessionBrokers()
    try:
        yield brokers
    finally:
        brokers.close()


@pytest.fixture(scope="session")
def ottla_session(request: pytest.FixtureRequest) -> Broker | External:
    """The broker of the tests that want no special one, for fixtures with the scope of a session."""
    bootstrap = request.config.getoption("--ottla-bootstrap")
    if bootstrap is not None:
        return External(bootstrap)
    brokers: SessionBrokers = request.getfixturevalue("_ottla_brokers")
    return brokers.get(_wanted(request.config, {}), is_fresh=False)


@pytest.fixture
def ottla(request: pytest.FixtureRequest) -> Iterator[Broker | External]:
    """A running broker on a temporary directory: an `ottla.Broker`, unless the tests run against an existing broker.

    Faults that the test leaves are removed, so that they do not strike the next test.
    """
    options = _marked(request.node)
    bootstrap = request.config.getoption("--ottla-bootstrap")
    if bootstrap is not None:
        wanted = [name for name, value in options.items() if value and (name, value) != ("clock", _CLOCKS[0])]
        if wanted:
            pytest.skip(f"the test wants a broker of its own ({', '.join(wanted)}), and runs against {bootstrap}")
        yield External(bootstrap)
        return
    brokers: SessionBrokers = request.getfixturevalue("_ottla_brokers")
    broker = brokers.get(_wanted(request.config, {**options, "brokers": 1}), is_fresh=bool(options.get("fresh")))
    request.node.stash[_BROKER] = Before(broker=broker, logged_lines=broker.logged_lines, now_ms=broker.clock.approximate_ms())
    pid, known = broker.pid, {fault.id for fault in broker.faults.all()}
    yield broker
    # A process that the test has started numbers its faults from 1 again.
    _remove_faults(broker, known if broker.pid == pid else ())


def _remove_faults(broker: Broker, known: Collection[int]) -> None:
    """Remove all faults but those that fixtures of a wider scope have added."""
    from ottla.control.remote import ControlError

    if not broker.is_running:
        return
    # The test may just have killed the broker.
    with suppress(ControlError):
        if broker.is_paused:
            broker.resume()
        for fault in broker.faults.all():
            if fault.id not in known:
                fault.remove()


_BROKER = pytest.StashKey[Before]()


def _report_sections(before: Before) -> list[tuple[str, str]]:
    """Sections of a report: what the broker has logged since, and what became of its transactions."""
    from ottla.control.remote import Remote
    from ottla.testing.report import transactions_since

    broker = before.broker
    sections = [(f"{broker!r} has logged", broker.logs_since(before.logged_lines)[-MAX_REPORTED_LINES:])]
    if broker.is_running and not broker.is_paused:
        control = broker.ready["control"]
        door = Remote(control["url"], control["token"])
        sections.append(("transactions", transactions_since(broker.bootstrap, before.now_ms, door)))
    return [(title, "\n".join(lines)) for title, lines in sections if lines]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and _BROKER in item.stash and not report.skipped:
        report.sections += _report_sections(item.stash[_BROKER])
    return report


@pytest.fixture(scope="session")
def _ottla_clusters() -> Iterator[Clusters]:
    clusters = Clusters()
    try:
        yield clusters
    finally:
        clusters.close()


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest) -> Cluster:
    """A running cluster of three brokers, or of as many as the marker says: an `ottla.Cluster`. All of its brokers run."""
    options = _marked(request.node)
    bootstrap = request.config.getoption("--ottla-bootstrap")
    if bootstrap is not None:
        pytest.skip(f"the test wants a cluster of its own, and runs against {bootstrap}")
    clusters: Clusters = request.getfixturevalue("_ottla_clusters")
    return clusters.get(_wanted(request.config, {"brokers": DEFAULT_CLUSTER_BROKERS, **options}))


@pytest.fixture
def ottla_bootstrap(ottla: Broker | External) -> str:
    """The ``host:port`` of the broker."""
    return ottla.bootstrap


@pytest.fixture
def ottla_records(ottla: Broker | External) -> Callable[..., list[ConsumedRecord]]:
    """A function ``ottla_records(topic, isolation="committed")`` that returns all records that a topic has now. Other isolations
    are ``aborted`` and ``all``."""
    return ottla.records


@pytest.fixture
def ottla_topic() -> str:
    """A topic name that was never used. The broker makes the topic when a client first asks for it."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def ottla_group() -> str:
    """A consumer group id that was never used."""
    return f"group-{uuid.uuid4().hex[:12]}"
