"""Setup of the whole test run: its plugins, Hypothesis profiles and the Spark session."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ottla.invariants import CHECKED
from ottla.protocol import steps
from tests.support.counting import SCALE, LineMeter, Meter, TimeMeter
from tools import keeping

pytest_plugins = [
    "tests.support.budgets",
    "tests.support.installed",
    "tests.support.levels",
    "tests.support.results",
    "tests.support.sharing",
]

# Check the whole state, not only the changed part of it, after every change that a test makes.
CHECKED.whole_states = True

# Hypothesis draws the same examples in every run, so that only a change of the code can make a test fail; `make search` draws other
# examples. An example has no deadline, because its duration depends on the load of the machine.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True)
settings.register_profile("searching", UNTIMED, print_blob=True)
settings.load_profile("repeatable")

MAX_ID_LENGTH = 200
BEGIN_LENGTH = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the brokers answer into the scenario files")


# Collection creates about a million objects that live until the end of the run. Garbage collection would add a third to the
# duration.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


RUN = pytest.StashKey[keeping.Run | None]()


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts a command in the background with SIGINT ignored, and child processes would inherit this.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # With xdist this process is the controller. Its workers find the directory of the run in their environment.
    config.stash[RUN] = keeping.Run.begun()


def pytest_unconfigure(config: pytest.Config) -> None:
    run = config.stash.get(RUN, None)
    if run is not None:
        run.end()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the id of a long parameter to its beginning and its length.

    pytest stores a test's id in the environment variable PYTEST_CURRENT_TEST, and Linux cannot start a process whose environment
    has a variable of more than 128 KiB.
    """
    if isinstance(val, str | bytes) and len(val) > MAX_ID_LENGTH:
        begin = val[:BEGIN_LENGTH]
        return f"{begin if isinstance(begin, str) else begin.hex()}... ({len(val)})"
    return None


@pytest.fixture(params=["lines", pytest.param("ms", marks=pytest.mark.nightly)])
def meter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Meter:
    """Returns a meter of how long a test blocks the event loop: in lines of Python, and under ``make nightly`` also in ms."""
    if request.param == "ms":
        return TimeMeter()
    monkeypatch.setattr(steps, "WORK_A_STEP", steps.WORK_A_STEP // SCALE)
    return LineMeter()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Spark session for all tests of a process. Starting a session takes longer than most of the tests."""
    pytest.importorskip("pyspark")
    from ottla.spark.session.session import session
    from tests.support import quick_java
    from tools import kafka

    # pyspark.testing imports pandas-on-Spark, which logs a warning if this variable is unset.
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_java.environment().items():
            patch.setenv(name, value)
        spark = session("ottla-tests", master="local[2]", ivy_home=kafka.cache_dir() / "ivy")
    yield spark
    spark.stop()


@pytest.fixture
def other_spark(spark: Any) -> Iterator[Any]:
    """A second session. Spark looks for data sources in the session that was active last, so the fixture activates the first
    session again."""
    yield spark.newSession()
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
