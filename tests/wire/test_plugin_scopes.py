"""Plugin fixtures of wider scopes: faults and data left by a test, and the broker that a marker selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire.test_plugin import run

pytestmark = pytest.mark.wire


LEFT_ON_A_CLUSTER = """
import os, signal, pathlib
from ottla.control.remote import ControlError

def faults(cluster):
    return [cluster.faults(broker).all() for broker in cluster.brokers]

@pytest.mark.ottla(brokers=2)
class TestCluster:
    def test_cluster_has_faults_and_a_paused_broker_at_the_end_of_a_test(self, ottla_cluster):
        ottla_cluster.faults(1).add(api="Metadata", error="UNKNOWN_SERVER_ERROR", times=None)
        ottla_cluster.faults(2).add(api="BrokerHeartbeat", cut="before", times=None)
        ottla_cluster.pause(2)
        with pytest.raises(ControlError, match="^broker 2 is paused; resume it first$"):
            faults(ottla_cluster)

    def test_cluster_faults_are_removed_after_a_test_that_paused_a_broker(self, ottla_cluster):
        assert faults(ottla_cluster) == [[], []]
        ottla_cluster.faults(1).add(api="Metadata", error="UNKNOWN_SERVER_ERROR", times=None)
        ottla_cluster.kill(1)

    def test_cluster_faults_are_removed_after_a_test_that_killed_a_broker(self, ottla_cluster):
        assert faults(ottla_cluster) == [[], []]
        os.kill(ottla_cluster.pid(2), signal.SIGSTOP)

    def test_broker_suspended_by_sigstop_is_resumed_for_the_next_test(self, ottla_cluster):
        assert pathlib.Path(f"/proc/{ottla_cluster.pid(2)}/stat").read_text().rpartition(")")[2].split()[0] != "T"
"""


def test_faults_that_a_test_left_on_a_cluster_are_removed(tmp_path: Path) -> None:
    code, output = run(tmp_path, LEFT_ON_A_CLUSTER)
    assert (code, "4 passed" in output) == (0, True), output


FRESH = """
@pytest.fixture(scope="session")
def prepared(ottla_session):
    ottla_session.create_topic("prepared")
    return ottla_session.faults.add(api="JoinGroup", delay_ms=1, times=None)

def test_session_broker_has_the_prepared_topic(prepared, ottla):
    assert topics(ottla.bootstrap) == {"prepared"}

@pytest.mark.ottla(fresh=True)
@pytest.mark.parametrize("number", range(2))
def test_fresh_broker_has_no_topics_and_faults(ottla, number):
    assert topics(ottla.bootstrap) == set()
    assert ottla.faults.all() == []
    produce(ottla.bootstrap, "left-behind")

def test_session_broker_keeps_topic_and_fault(prepared, ottla, ottla_session):
    assert ottla is ottla_session
    assert topics(ottla.bootstrap) == {"prepared"}
    assert [fault.id for fault in ottla.faults.all()] == [prepared.id]
"""

FRESH_MODULE = """
import pytest
pytestmark = pytest.mark.ottla(fresh=True)

@pytest.fixture(scope="module")
def held(ottla_module):
    return ottla_module

def test_module_fixture_has_the_fresh_broker(held, ottla):
    assert ottla is held

def test_fresh_broker_has_no_faults(ottla):
    assert ottla.faults.all() == []

def test_session_broker_keeps_its_fault(held, ottla, ottla_session):
    assert ottla is held
    assert [fault.view()["fault"]["api"] for fault in ottla_session.faults.all()] == ["JoinGroup"]
"""


def test_fresh_marker_does_not_reset_the_broker_of_a_fixture_with_wider_scope(tmp_path: Path) -> None:
    (tmp_path / "test_xlater.py").write_text(FRESH_MODULE)
    code, output = run(tmp_path, FRESH)
    assert (code, "7 passed" in output) == (0, True), output


ELSEWHERE = """
import os
from pathlib import Path

@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

def test_broker_process_gets_an_absolute_python_path(elsewhere, ottla):
    variables = Path(f"/proc/{ottla.pid}/environ").read_text().split("\\0")
    assert "PYTHONPATH=" + str(Path(__file__).parent / "vendor") in variables
"""


def test_plugin_uses_a_relative_python_path_after_a_chdir(tmp_path: Path) -> None:
    (tmp_path / "vendor").symlink_to(Path(__file__).parent.parent.parent)
    code, output = run(tmp_path, ELSEWHERE, "test_users.py", PYTHONPATH="vendor")
    assert (code, "1 passed" in output) == (0, True), output


MARKED = """
OTHER = pytest.mark.ottla(settings={"num.partitions": 4})

@pytest.fixture(scope="session")
def prepared(ottla_session):
    ottla_session.create_topic("prepared")
    return "prepared"

@pytest.fixture(scope="module")
def of_the_module(ottla_module):
    return ottla_module

@pytest.fixture
def again(prepared):
    return prepared

@pytest.fixture(scope="session", autouse=True)
def application(ottla_session):
    return ottla_session

@OTHER
def test_marker_for_another_broker_is_refused_with_a_session_fixture(again, ottla):
    pass

@OTHER
def test_marker_for_another_broker_is_refused_with_a_module_fixture(of_the_module, ottla_bootstrap):
    pass

@OTHER
def test_pytest_marker_naming_another_broker_is_refused_for_the_session_broker(ottla_session):
    pass

@OTHER
@pytest.mark.usefixtures("prepared")
def test_pytest_marker_naming_another_broker_is_refused_with_usefixtures(ottla):
    pass

@OTHER
def test_marked_test_may_use_its_own_broker_and_the_session_broker(ottla, ottla_session):
    assert ottla is not ottla_session

@OTHER
def test_marker_for_another_broker_is_accepted_with_an_autouse_fixture(ottla):
    pass

@pytest.mark.ottla(fresh=True)
def test_fresh_marker_keeps_the_broker_of_an_autouse_session_fixture(prepared, ottla, application):
    assert ottla is application
"""


def test_ottla_marker_is_refused_if_a_fixture_with_wider_scope_has_another_broker(tmp_path: Path) -> None:
    code, output = run(tmp_path, MARKED)
    assert (code, "3 passed, 4 errors" in output) == (1, True), output
    told = "{} uses {}, but the marker ottla of test_users.py::{} needs another broker; use"
    assert (
        told.format("the fixture prepared", "ottla_session", "test_marker_for_another_broker_is_refused_with_a_session_fixture")
        in output
    )
    assert (
        told.format("the fixture of_the_module", "ottla_module", "test_marker_for_another_broker_is_refused_with_a_module_fixture")
        in output
    )
    assert (
        told.format("the test", "ottla_session", "test_pytest_marker_naming_another_broker_is_refused_for_the_session_broker")
        in output
    )
    assert (
        told.format("the fixture prepared", "ottla_session", "test_pytest_marker_naming_another_broker_is_refused_with_usefixtures")
        in output
    )
