"""Fixtures for tests against a broker: ``ottla``, ``ottla_bootstrap``, ``ottla_records``, ``ottla_topic``, ``ottla_group``,
``ottla_schema_registry``; and ``ottla_cluster`` for tests against several brokers. `client_fixtures` has producers and consumers.

``@pytest.mark.ottla(settings={...}, features={...}, fresh=True, clock="manual")`` selects the broker of a test; with ``brokers=3``
it selects a cluster; ``security="SASL_SSL"``, ``users={...}`` and ``acls=[...]`` are those of `ottla.Broker`. Tests with equal
options share one broker in each xdist worker; with ``fresh`` the broker is reset before the test. With ``--ottla-bootstrap`` or
``OTTLA_BOOTSTRAP`` the same tests run against an existing broker, such as Apache Kafka, and tests with options are skipped.

The broker runs in its own process, which starts when the first test uses it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ottla.testing.client_fixtures import (  # noqa: F401
    CLIENTS,
    _ottla_aio_config,
    ottla_aio_consumer,
    ottla_aio_producer,
    ottla_consumer,
    ottla_producer,
)
from ottla.testing.external import External
from ottla.testing.failure_hook import BROKER, Before, pytest_runtest_makereport  # noqa: F401
from ottla.testing.registry_fixture import ottla_schema_registry  # noqa: F401
from ottla.testing.session_brokers import MACHINE, MANUAL, BrokerRequest, SessionBrokers, SessionClusters

if TYPE_CHECKING:
    from ottla.client.records.record import ConsumedRecord
    from ottla.testing.cluster_handle import Cluster
    from ottla.testing.handle import Broker

DEFAULT_CLUSTER_BROKERS = 3
_BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
_OPTIONS: dict[str, tuple[type, ...]] = {
    "settings": (Mapping,),
    "features": (Mapping,),
    "fresh": (bool,),
    "clock": (str,),
    "brokers": (int,),
    "security": (str,),
    "users": (Mapping, Sequence),
    "acls": (Sequence,),
    "topic": (Mapping,),
    "client": (str,),
    "producer": (Mapping,),
    "consumer": (Mapping,),
}
_OF_ANY_BROKER = ("topic", "client", "producer", "consumer")
"""Options that do not select a broker, so that tests with them also run against an existing broker."""
_OF_TOPICS = ("partitions", "replication_factor", "configs")
_CLOCKS = (MACHINE, MANUAL)


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
        "ottla(settings=None, features=None, fresh=False, clock='machine', brokers=3, security=None, users=None, acls=None,"
        " topic=None, client=None, producer=None, consumer=None): the broker that the fixture ottla gives to a test, or the cluster"
        " that ottla_cluster gives, and its topic, producer and consumer",
    )


def _pairs(lines: list[str], where: str) -> dict[str, str]:
    pairs = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"{where}: {line!r} is not NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _marked(item: pytest.Item | pytest.Collector) -> dict[str, Any]:
    """Return the options of the markers of a test, class or module. The innermost marker takes precedence.

    An invalid marker fails the setup of its tests. An error during collection would stop the whole session, and under xdist without
    showing its message.
    """
    options: dict[str, Any] = {}
    for marker in item.iter_markers("ottla"):
        if marker.args:
            _fail(f"{item.nodeid}: the marker ottla takes keyword arguments only: {', '.join(_OPTIONS)}")
        for name, value in marker.kwargs.items():
            if name not in _OPTIONS:
                _fail(f"{item.nodeid}: the marker ottla has no option {name!r}; its options are {', '.join(_OPTIONS)}")
            is_good = isinstance(value, _OPTIONS[name]) and (name != "clock" or value in _CLOCKS)
            is_good &= not (isinstance(value, str) and str not in _OPTIONS[name])
            is_good &= name != "topic" or value is None or set(value) <= set(_OF_TOPICS)
            is_good &= name != "client" or value is None or value in CLIENTS
            if value is not None and not is_good:
                _fail(f"{item.nodeid}: the marker ottla needs {name}={_EXAMPLES[name]}, not {value!r}")
            options.setdefault(name, value)
    return options


_EXAMPLES = {
    "settings": '{"num.partitions": 3}',
    "features": '{"transaction.version": 2}',
    "fresh": "True",
    "clock": '"manual"',
    "brokers": "3",
    "security": '"SASL_SSL"',
    "users": '{"alice": "secret"}',
    "acls": '[Acl("alice", "read", topic="orders")]',
    "topic": '{"partitions": 3, "configs": {"cleanup.policy": "compact"}}',
    "client": '"confluent"',
    "producer": '{"transactional.id": "checkout-1"}',
    "consumer": '{"group.id": "billing"}',
}


def _fail(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)


def _wanted(config: pytest.Config, options: Mapping[str, Any], *, has_registry: bool = False) -> BrokerRequest:
    settings = {
        **_pairs(config.getini("ottla_settings"), "ottla_settings"),
        **_pairs(config.getoption("--ottla-set"), "--ottla-set"),
        **{str(name): _text(value) for name, value in (options.get("settings") or {}).items()},
    }
    features = {**_pairs(config.getini("ottla_features"), "ottla_features"), **(options.get("features") or {})}
    users, acls = options.get("users") or (), options.get("acls")
    return BrokerRequest(
        settings=tuple(sorted(settings.items())),
        features=tuple(sorted(_levels(features).items())),
        clock=options.get("clock") or _CLOCKS[0],
        broker_count=options.get("brokers") or 1,
        security=options.get("security"),
        users=tuple(users.items()) if isinstance(users, Mapping) else tuple((name, None) for name in users),
        acls=None if acls is None else tuple(acls),
        has_registry=has_registry,
    )


def _levels(features: Mapping[str, Any]) -> dict[str, int]:
    try:
        return {str(name): int(level) for name, level in features.items()}
    except (TypeError, ValueError):
        _fail(f"features are NAME=LEVEL with a number for the level, not {dict(features)}")


_BROKERS = pytest.StashKey[SessionBrokers]()
"""The brokers of a session; set when a test first uses a broker."""


@pytest.fixture(scope="session")
def _ottla_brokers(request: pytest.FixtureRequest) -> Iterator[SessionBrokers]:
    brokers = request.config.stash[_BROKERS] = SessionBrokers()
    try:
        yield brokers
    finally:
        del request.config.stash[_BROKERS]
        brokers.close()


@pytest.fixture(scope="session")
def ottla_session(request: pytest.FixtureRequest) -> Iterator[Broker | External]:
    """The broker of tests without marker options, for fixtures with session scope."""
    bootstrap = request.config.getoption("--ottla-bootstrap")
    if bootstrap is not None:
        yield External(bootstrap)
        return
    brokers: SessionBrokers = request.getfixturevalue("_ottla_brokers")
    with brokers.hold(_wanted(request.config, {}), is_fresh=False) as broker:
        yield broker


@pytest.fixture(scope="module")
def ottla_module(request: pytest.FixtureRequest) -> Iterator[Broker | External]:
    """The broker that the module's marker selects, for fixtures with module scope."""
    options = _marked(request.node)
    if (external := _external(request.config, options, "module")) is not None:
        yield external
        return
    brokers: SessionBrokers = request.getfixturevalue("_ottla_brokers")
    shared = _of_wider_fixtures(request, "ottla_session")
    wanted = _wanted(request.config, {**options, "brokers": 1})
    with brokers.hold(wanted, is_fresh=bool(options.get("fresh")), shared=shared) as broker:
        yield broker


@pytest.fixture
def ottla(request: pytest.FixtureRequest) -> Iterator[Broker | External]:
    """A running `ottla.Broker` on a temporary directory, or the existing broker against which the tests run.

    The test's faults are removed after the test, so that they do not hit requests of the next test.
    """
    options = _marked(request.node)
    if (external := _external(request.config, options, "test")) is not None:
        yield external
        return
    brokers: SessionBrokers = request.getfixturevalue("_ottla_brokers")
    shared = _of_wider_fixtures(request, "ottla_module", "ottla_session")
    has_registry = "ottla_schema_registry" in request.fixturenames
    wanted = _wanted(request.config, {**options, "brokers": 1}, has_registry=has_registry)
    broker = brokers.get(wanted, is_fresh=bool(options.get("fresh")), shared=shared)
    request.node.stash[BROKER] = Before(
        broker=broker,
        logged_lines=broker.logged_lines,
        now_ms=broker.clock.approximate_ms(),
        reports=request.getfixturevalue("tmp_path_factory").getbasetemp() / "ottla",
    )
    yield broker
    brokers.remove_faults([broker])


def _of_wider_fixtures(request: pytest.FixtureRequest, *names: str) -> list[object]:
    """Return the brokers that a test uses through the fixtures ``names``."""
    return [request.getfixturevalue(name) for name in names if name in request.fixturenames]


def _external(config: pytest.Config, options: Mapping[str, Any], what: str) -> External | None:
    """Return the existing broker against which the tests run; None if the plugin starts brokers. Skips tests with marker
    options."""
    bootstrap = config.getoption("--ottla-bootstrap")
    if bootstrap is None:
        return None
    wanted = [
        name for name, value in options.items() if value and name not in _OF_ANY_BROKER and (name, value) != ("clock", _CLOCKS[0])
    ]
    if wanted:
        pytest.skip(f"the {what} needs a broker of its own ({', '.join(wanted)}), but the tests run against {bootstrap}")
    return External(bootstrap)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Record the faults that a higher-scoped fixture adds, because these faults stay until the fixture ends."""
    if fixturedef.scope == "function":
        return (yield)
    _check_marker(fixturedef, request)
    brokers = request.config.stash.get(_BROKERS, None)
    before = set() if brokers is None else brokers.faults()
    result = yield
    brokers = request.config.stash.get(_BROKERS, None)
    if brokers is not None:
        brokers.keep_faults(fixturedef, brokers.faults() - before)
    return result


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    brokers = request.config.stash.get(_BROKERS, None)
    if brokers is not None:
        brokers.let_faults_go(fixturedef)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Remove a test's remaining faults on the brokers of higher-scoped fixtures."""
    try:
        return (yield)
    finally:
        brokers = item.config.stash.get(_BROKERS, None)
        if brokers is not None:
            brokers.remove_faults()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test with an invalid marker, or whose marker selects another broker than that of a class, module or session fixture
    which the test uses.

    A test that names both ``ottla`` and such a fixture uses two brokers, and does not fail. Autouse fixtures do not count, because
    the test did not choose them.
    """
    options = _marked(item)
    fixtures = getattr(item, "_fixtureinfo", None)
    if fixtures is None or item.config.getoption("--ottla-bootstrap") is not None:
        return
    wanted = _wanted(item.config, {**options, "brokers": 1})
    named = [*fixtures.argnames, *(name for marker in item.iter_markers("usefixtures") for name in marker.args)]
    users = _users(named, fixtures.name2fixturedefs)
    for name, given in _given(item).items():
        if name not in users or wanted == given or ("ottla" in users and users[name] is None):
            continue
        if "ottla_cluster" in users and "ottla" not in users:
            continue
        _refuse(item, name, "the test" if users[name] is None else f"the fixture {users[name]}")


def _users(named: list[str], definitions: Mapping[str, Sequence[pytest.FixtureDef[Any]]]) -> dict[str, str | None]:
    """Return the fixtures that a test uses. The value of each is the fixture that requests it, or None if the test requests it."""
    users: dict[str, str | None] = dict.fromkeys(named)
    unread = list(users)
    while unread:
        user = unread.pop(0)
        for name in [name for definition in definitions.get(user, ()) for name in definition.argnames if name not in users]:
            users[name] = user
            unread.append(name)
    return users


def _given(node: pytest.Item | pytest.Collector) -> dict[str, BrokerRequest]:
    """Return the brokers that higher-scoped fixtures use for a test or class."""
    module = node.getparent(pytest.Module)
    of_the_module = {} if module is None else _marked(module)
    return {
        "ottla_session": _wanted(node.config, {}),
        "ottla_module": _wanted(node.config, {**of_the_module, "brokers": 1}),
    }


def _refuse(node: pytest.Item | pytest.Collector, name: str, who: str) -> NoReturn:
    marked = next((one for one in reversed(node.listchain()) if any(mark.name == "ottla" for mark in one.own_markers)), node)
    _fail(
        f"{who} uses {name}, but the marker ottla of {marked.nodeid} needs another broker; use ottla_module, which has the broker"
        " of a module's marker, or ottla, in a fixture of each test"
    )


def _check_marker(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Fail a fixture with class or module scope that would use another broker than its tests."""
    node = request.node
    if fixturedef.scope == "session" or not isinstance(node, pytest.Item | pytest.Collector):
        return
    wanted = _wanted(request.config, {**_marked(node), "brokers": 1})
    for name, given in _given(node).items():
        if name in fixturedef.argnames and wanted != given:
            _refuse(node, name, f"the fixture {fixturedef.argname}")


@pytest.fixture(scope="session")
def _ottla_clusters() -> Iterator[SessionClusters]:
    clusters = SessionClusters()
    try:
        yield clusters
    finally:
        clusters.close()


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest) -> Cluster:
    """A running `ottla.Cluster` of three brokers, or of the number that the marker selects. All brokers run at the test's start."""
    options = _marked(request.node)
    bootstrap = request.config.getoption("--ottla-bootstrap")
    if bootstrap is not None:
        pytest.skip(f"the test needs a cluster of its own, but the tests run against {bootstrap}")
    clusters: SessionClusters = request.getfixturevalue("_ottla_clusters")
    return clusters.get(_wanted(request.config, {"brokers": DEFAULT_CLUSTER_BROKERS, **options}))


@pytest.fixture
def ottla_bootstrap(ottla: Broker | External) -> str:
    """The ``host:port`` of the broker."""
    return ottla.bootstrap


@pytest.fixture
def ottla_records(ottla: Broker | External) -> Callable[..., list[ConsumedRecord]]:
    """A function ``ottla_records(topic, isolation="committed")`` that returns all current records of a topic. The other values of
    ``isolation`` are ``aborted`` and ``all``."""
    return ottla.records


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new topic, in the cluster of a test with ``ottla_cluster``, else in the broker. The marker's ``topic`` may have
    ``partitions``, ``replication_factor`` and ``configs``."""
    options = _marked(request.node).get("topic") or {}
    handle = request.getfixturevalue("ottla_cluster" if "ottla_cluster" in request.fixturenames else "ottla")
    name = f"topic-{uuid.uuid4().hex[:12]}"
    handle.create_topic(name, **options)
    yield name
    if isinstance(handle, External):
        # Delete the topic, because an existing broker outlives the test.
        with suppress(Exception):
            handle.delete_topic(name)


@pytest.fixture
def ottla_group() -> str:
    """A new consumer group id."""
    return f"group-{uuid.uuid4().hex[:12]}"
