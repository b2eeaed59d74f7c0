"""The pytest plugin, in suites as users write them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla import Broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wire

IMPORTS = """
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource

def topics(bootstrap):
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics)

def produce(bootstrap, topic):
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"hello")
    assert producer.flush(60) == 0
"""


def run(directory: Path, suite: str, *arguments: str, **environment: str) -> tuple[int, str]:
    (directory / "test_users.py").write_text(IMPORTS + suite)
    without = [f"-pno:{name}" for name in ("asyncio", "randomly", "xdist") if name not in arguments]
    arguments = tuple(argument for argument in arguments if argument != "xdist")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", *without]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "OTTLA"))}
    done = subprocess.run(
        [*command, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**variables, "PYTHONPATH": str(Path(__file__).parent.parent.parent), **environment},
    )
    return done.returncode, done.stdout + done.stderr


SHARED = """
def test_ottla_fixtures_share_a_broker(ottla, ottla_bootstrap, ottla_session):
    assert ottla is ottla_session and ottla.bootstrap == ottla_bootstrap
    produce(ottla_bootstrap, "left-behind")

def test_next_test_of_the_session_keeps_the_topics(ottla_bootstrap):
    assert topics(ottla_bootstrap) == {"left-behind"}

@pytest.mark.ottla(fresh=True)
def test_fresh_broker_has_no_topics(ottla, ottla_session):
    assert ottla is ottla_session
    assert topics(ottla.bootstrap) == set()

def test_session_broker_may_be_killed(ottla):
    ottla.kill()

def test_session_broker_is_restarted_after_a_kill(ottla):
    assert topics(ottla.bootstrap) == set()

@pytest.mark.ottla(clock="manual")
def test_manual_clock_of_the_marker_can_be_advanced(ottla):
    before_ms = ottla.clock.now_ms
    ottla.clock.advance("1h")
    assert ottla.clock.now_ms - before_ms == 3_600_000

@pytest.mark.ottla(settings={"auto.create.topics.enable": False})
class TestOthers:
    def test_marker_settings_of_a_class_apply_to_its_tests(self, ottla, ottla_session, ottla_topic):
        assert ottla is not ottla_session
        TestOthers.bootstrap = ottla.bootstrap
        other = f"{ottla_topic}-2"
        assert AdminClient({"bootstrap.servers": ottla.bootstrap}).list_topics(other, timeout=60).topics[other].error

    def test_tests_of_a_class_with_a_marker_share_a_broker(self, ottla):
        assert ottla.bootstrap == TestOthers.bootstrap

    @pytest.mark.ottla(features={"transaction.version": 1})
    def test_marker_features_select_another_broker(self, ottla):
        assert ottla.bootstrap != TestOthers.bootstrap
"""


@pytest.mark.smoke
def test_every_test_gets_the_broker_of_its_ottla_marker(tmp_path: Path) -> None:
    code, output = run(tmp_path, SHARED)
    assert (code, "9 passed" in output) == (0, True), output


LEFT_BEHIND = """
@pytest.fixture(scope="session")
def slow(ottla_session):
    return ottla_session.faults.add(api="Metadata", delay_ms=1, times=None)

def test_failing_test_leaves_a_fault(slow, ottla):
    ottla.faults.add(api="Metadata", drop_answer=True, times=None)
    raise AssertionError("before it is removed")

def test_fault_was_removed_and_broker_is_paused(slow, ottla):
    assert [fault.id for fault in ottla.faults.all()] == [slow.id]
    ottla.faults.add(api="Fetch", freeze=True)
    ottla.pause()

def test_session_fault_survives_a_pause(slow, ottla):
    assert [fault.id for fault in ottla.faults.all()] == [slow.id]
    ottla.restart(kill=True)
    assert ottla.faults.add(api="Fetch", freeze=True).id == slow.id

def test_killed_broker_has_no_faults(ottla):
    assert ottla.faults.all() == []
    ottla.faults.add(api="*", cut="after", times=None)
    ottla.kill()

def test_broker_is_restarted_without_faults(ottla):
    assert topics(ottla.bootstrap) == set()
"""


def test_fault_that_a_test_leaves_does_not_affect_the_next_test(tmp_path: Path) -> None:
    code, output = run(tmp_path, LEFT_BEHIND)
    assert (code, "1 failed, 4 passed" in output) == (1, True), output


def test_ottla_marker_refuses_setting_names_that_are_not_strings(tmp_path: Path) -> None:
    code, output = run(tmp_path, '@pytest.mark.ottla(settings={1: 2, "a": 3})\ndef test_broker_starts(ottla): pass\n')
    assert (code, "the broker did not start" in output, "unknown setting" in output) == (1, True, True), output


def test_pytest_collection_starts_no_broker(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import ottla.testing.handle\ndel ottla.testing.handle.Broker.start\n")
    code, output = run(tmp_path, SHARED, "--collect-only")
    assert (code, "9 tests collected" in output) == (0, True), output


def test_pytest_failure_report_includes_broker_log_lines(tmp_path: Path) -> None:
    suite = """
def test_earlier_test_passes(ottla_bootstrap):
    produce(ottla_bootstrap, "before")

def test_transaction_is_committed(ottla_bootstrap):
    produce(ottla_bootstrap, "meanwhile")
    producer = Producer({"bootstrap.servers": ottla_bootstrap, "transactional.id": "checkout"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("meanwhile", b"paid")
    producer.commit_transaction(60)
    assert False
"""
    code, output = run(tmp_path, suite)
    assert code == 1
    _, section = output.split("what happened on", 1)
    assert "topic_created topic=meanwhile" in section
    assert "topic=before" not in output
    assert "checkout:" in section
    assert "commit is decided and final" in section
    assert "(meanwhile:0 at 2)" in section, "the report has the position of the marker"


def test_pytest_failure_report_names_fenced_producers_and_refused_requests(tmp_path: Path) -> None:
    suite = """
def producer(bootstrap, name):
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": "checkout", "client.id": name})
    made.init_transactions(60)
    return made

def test_fenced_producer_commits(ottla_bootstrap, ottla_topic):
    first = producer(ottla_bootstrap, "first")
    first.begin_transaction()
    first.produce(ottla_topic, b"paid")
    first.flush(60)
    second = producer(ottla_bootstrap, "second")
    first.commit_transaction(60)
"""
    code, output = run(tmp_path, suite)
    assert code == 1
    _, section = output.split("what happened on", 1)
    shown = section.splitlines()

    def count(lines: list[str], *parts: str) -> int:
        return sum(all(part in line for part in parts) for line in lines)

    assert count(shown, "a transaction begins: topic-") == 1
    assert count(shown, "is fenced by producer", "client second at 127.0.0.1, the new owner of the id") == 1
    assert count(shown, "producer_fenced") == 0, "the log line repeats the timeline"
    assert count(shown, "EndTxn commit is refused: ", "(from client first at 127.0.0.1)") == 1
    assert count(shown, "a newer producer fenced it: the coordinator aborts it") == 1
    (path,) = re.findall(r"earlier lines and the log are in (\S+)", section)
    whole = Path(path).read_text().splitlines()
    assert count(whole, "InitProducerId", "(from client first at 127.0.0.1)") == 1


def test_pytest_failure_report_names_transactional_ids_with_only_refused_requests(tmp_path: Path) -> None:
    suite = """
def test_producer_has_a_long_timeout(ottla_bootstrap):
    settings = {"bootstrap.servers": ottla_bootstrap, "transactional.id": "greedy", "transaction.timeout.ms": 2_000_000_000}
    Producer(settings).init_transactions(60)
"""
    code, output = run(tmp_path, suite)
    assert code == 1
    assert re.search("greedy: .*InitProducerId is refused: INVALID_TRANSACTION_TIMEOUT", output)


def test_pytest_failure_report_has_at_most_forty_lines_and_names_the_file_with_all_lines(tmp_path: Path) -> None:
    suite = """
def test_orders_are_paid(ottla, ottla_topic):
    for number in range(30):
        with ottla.transaction("checkout") as transaction:
            transaction.produce(ottla_topic, {"id": number})
    ottla.expect(ottla_topic, [{"id": number} for number in range(20)] + ["paid"], timeout_s=1)
"""
    code, output = run(tmp_path, suite, f"--basetemp={tmp_path / 'base'}")
    assert code == 1
    report = output[output.index("___ test_orders_are_paid") : output.index("=== short test summary")].splitlines()
    assert len(report) <= 40, output
    assert "expected 21 records in topic" in output
    assert "1 missing (-), 10 unexpected (+)" in output
    (path,) = re.findall(r"earlier lines and the log are in (\S+)", output)
    assert Path(path).read_text().count("commit is decided and final") == 30


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ("fresch=True", "the marker ottla has no option 'fresch'; its options are settings, features, fresh, clock"),
        ("clock='still'", """the marker ottla needs clock="manual", not 'still'"""),
        ("settings=3", """the marker ottla needs settings={"num.partitions": 3}, not 3"""),
        ("topic={'partition': 3}", """the marker ottla needs topic={"partitions": 3, "configs": {"cleanup.policy": "compact"}}"""),
        ("client='aiokafka'", """the marker ottla needs client="confluent", not 'aiokafka'"""),
        ("True", "the marker ottla takes keyword arguments only: settings, features, fresh, clock"),
        ("features={'transaction.version': 'two'}", "features are NAME=LEVEL with a number for the level"),
    ],
)
def test_invalid_ottla_marker_is_reported_in_one_line_and_fails_only_its_test(tmp_path: Path, marker: str, told: str) -> None:
    suite = (
        f"@pytest.mark.ottla({marker})\ndef test_broker_starts(ottla):\n    pass\n\n\ndef test_unmarked_test_passes():\n    pass\n"
    )
    for workers in ((), ("xdist", "-n2")):
        code, output = run(tmp_path, suite, *workers)
        assert code == 1
        assert told in output
        assert "1 passed, 1 error" in output
        assert "INTERNALERROR" not in output and "Traceback" not in output


def test_pytest_ini_settings_apply_to_all_brokers(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nottla_settings =\n    num.partitions=3\n    auto.create.topics.enable=false\n")
    suite = """
def test_configs_have_the_ini_settings(ottla):
    admin = AdminClient({"bootstrap.servers": ottla.bootstrap})
    (configs,) = [future.result(60) for future in admin.describe_configs([ConfigResource("broker", "1")]).values()]
    assert (configs["num.partitions"].value, configs["auto.create.topics.enable"].value) == ("4", "false")
"""
    code, output = run(tmp_path, suite, "--ottla-set", "num.partitions=4")
    assert code == 0, output
    code, output = run(tmp_path, suite, "--ottla-set", "num.partitions")
    assert code != 0
    assert "--ottla-set: 'num.partitions' is not NAME=VALUE" in output


def test_tests_run_against_an_existing_broker(tmp_path: Path) -> None:
    suite = """
def test_broker_of_ottla_bootstrap_has_only_the_topic_of_the_fixture(ottla, ottla_bootstrap, ottla_topic):
    produce(ottla_bootstrap, ottla_topic)
    assert topics(ottla.bootstrap) == {ottla_topic}

@pytest.mark.ottla(fresh=True)
def test_fresh_broker_is_not_available(ottla):
    raise AssertionError("it would have been somebody's broker")

@pytest.mark.ottla(clock="machine", fresh=False)
def test_pytest_markers_with_default_values_use_the_existing_broker(ottla):
    assert ottla.bootstrap

@pytest.mark.parametrize("name", ["faults", "clock", "kill"])
def test_attributes_that_an_existing_broker_lacks_skip_the_test(ottla, name):
    getattr(ottla, name)

def test_misspelt_attribute_of_a_broker_object_fails(ottla):
    with pytest.raises(AttributeError, match="no attribute 'fualts'"):
        ottla.fualts
"""
    with Broker() as broker:
        code, output = run(tmp_path, suite, "-rs", OTTLA_BOOTSTRAP=broker.bootstrap)
        assert (code, "3 passed, 4 skipped" in output) == (0, True), output
        assert f"ottla.faults needs a broker that the tests start, but the tests run against {broker.bootstrap}" in output


ONE_A_WORKER = """
import json, os
import pytest

def note(ottla):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(json.dumps([os.environ["PYTEST_XDIST_WORKER"], ottla.bootstrap, ottla.pid, str(ottla.data_dir)]) + "\\n")

@pytest.mark.parametrize("number", range(6))
def test_broker_is_shared(ottla, number):
    note(ottla)

@pytest.mark.parametrize("number", range(6))
@pytest.mark.ottla(fresh=True)
def test_fresh_broker_has_no_topics(ottla, ottla_topic, number):
    assert topics(ottla.bootstrap) == {ottla_topic}
    produce(ottla.bootstrap, ottla_topic)
    note(ottla)

@pytest.mark.parametrize("number", range(2))
@pytest.mark.ottla(settings={"num.partitions": 3})
def test_marker_settings_select_a_broker(ottla, number):
    note(ottla)
"""


def noted(notes: Path) -> list[tuple[str, str, int, str]]:
    return [tuple(json.loads(line)) for line in notes.read_text().splitlines()]


def assert_ended(pid: int, directory: str) -> None:
    """Check that a broker has ended with its suite, and that its directory is removed."""
    wait_until(lambda: not Path(f"/proc/{pid}").exists() and not Path(directory).parent.exists())


def test_every_xdist_worker_has_its_own_brokers(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    code, output = run(tmp_path, ONE_A_WORKER, "xdist", "-n", "2", NOTES=str(notes))
    assert (code, "14 passed" in output) == (0, True), output
    brokers = set(noted(notes))
    assert {worker for worker, *_ in brokers} == {"gw0", "gw1"}
    # Tests with the same settings share a broker in an xdist worker, even if some require an empty broker. Workers share no broker.
    assert len(brokers) == len({bootstrap for _, bootstrap, *_ in brokers}) <= 4
    for _, _, pid, directory in brokers:
        assert_ended(pid, directory)


STOPPED = """
import os, json

def test_failure_stops_the_suite(ottla):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(json.dumps(["main", ottla.bootstrap, ottla.pid, str(ottla.data_dir)]) + "\\n")
    raise AssertionError("the first")

def test_later_test_is_not_run(ottla):
    raise AssertionError("the second")
"""


@pytest.mark.parametrize("parallel", [(), ("xdist", "-n", "2", "--dist", "loadfile")], ids=["alone", "xdist"])
def test_suite_stopped_at_the_first_failure_leaves_no_broker(tmp_path: Path, parallel: tuple[str, ...]) -> None:
    notes = tmp_path / "notes"
    code, output = run(tmp_path, STOPPED, "-x", *parallel, NOTES=str(notes))
    assert (code != 0, "the first" in output, "the second" in output) == (True, True, False), output
    ((_, _, pid, directory),) = noted(notes)
    assert_ended(pid, directory)


CLUSTERS = """
def test_cluster_has_three_brokers(ottla_cluster):
    assert ottla_cluster.brokers == [1, 2, 3]
    ottla_cluster.create_topic("left-behind", 3, replication_factor=1)
    ottla_cluster.kill(2)

def test_killed_broker_is_in_service_again(ottla_cluster):
    assert ottla_cluster.in_service() == [1, 2, 3], "the test before has killed one"
    assert "left-behind" in topics(ottla_cluster.bootstrap)

@pytest.mark.ottla(brokers=2, settings={"num.partitions": 5}, topic={"replication_factor": 1})
def test_marker_selects_a_cluster_of_two(ottla_cluster, ottla_topic):
    assert ottla_cluster.brokers == [1, 2]
    assert {ottla_cluster.leader(ottla_topic, index) for index in range(5)} == {1, 2}
"""


def test_every_test_gets_the_cluster_of_its_ottla_marker(tmp_path: Path) -> None:
    code, output = run(tmp_path, CLUSTERS)
    assert code == 0, output


MANY = (
    """
@pytest.fixture(scope="session")
def prepared(ottla_session):
    ottla_session.create_topic("prepared")
    return ottla_session

def test_session_broker_has_the_prepared_topic(prepared):
    assert topics(prepared.bootstrap) == {"prepared"}
"""
    + "".join(
        f"""
@pytest.mark.ottla(settings={{"num.partitions": {number}}})
def test_broker_with_{number}_partitions_runs(ottla):
    assert ottla.is_running
"""
        for number in range(2, 5)
    )
    + """
def test_session_broker_keeps_the_prepared_topic(prepared, ottla):
    assert ottla is prepared
    assert topics(prepared.bootstrap) == {"prepared"}
"""
)


def test_broker_of_a_fixture_with_wider_scope_stays_open_for_other_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import ottla.testing.session_brokers as brokers\nbrokers.MAX_BROKERS = 2\n")
    code, output = run(tmp_path, MANY)
    assert (code, "5 passed" in output) == (0, True), output


LEFT_THROUGH_SESSION = """
@pytest.fixture(scope="module")
def slow(ottla_session):
    return ottla_session.faults.add(api="Metadata", delay_ms=1, times=None)

@pytest.fixture
def careless(ottla_session):
    ottla_session.faults.add(api="Produce", drop_answer=True)

def ids(ottla_session):
    return [fault.id for fault in ottla_session.faults.all()]

def test_careless_test_leaves_faults_on_its_broker(slow, careless, ottla_session):
    ottla_session.faults.add(api="Metadata", error="UNKNOWN_SERVER_ERROR", times=None)
    assert len(ids(ottla_session)) == 3

def test_only_the_fault_of_the_module_fixture_remains(slow, ottla_session):
    assert ids(ottla_session) == [slow.id]
    ottla_session.pause()

def test_broker_is_resumed_after_a_pause(slow, ottla_session):
    assert not ottla_session.is_paused
    assert ids(ottla_session) == [slow.id]
"""


def test_fault_left_through_the_session_fixture_is_removed(tmp_path: Path) -> None:
    (tmp_path / "test_xlater.py").write_text(
        "def test_fault_of_the_module_is_removed(ottla_session):\n    assert ottla_session.faults.all() == []\n"
    )
    code, output = run(tmp_path, LEFT_THROUGH_SESSION)
    assert (code, "4 passed" in output) == (0, True), output


MODULE = """
pytestmark = pytest.mark.ottla(settings={"num.partitions": 3})

@pytest.fixture(scope="module")
def prepared(ottla_module):
    ottla_module.create_topic("prepared")
    return ottla_module

def test_module_fixture_has_the_broker_that_the_marker_of_its_module_selects(prepared, ottla):
    assert ottla is prepared

@pytest.fixture(scope="module")
def of_another(ottla_session):
    pass

def test_wider_fixture_is_refused(of_another, ottla):
    pass

@pytest.mark.ottla(settings={"num.partitions": 4})
class TestOthers:
    @pytest.fixture(scope="class")
    def of_the_class(self, ottla_module):
        pass

    def test_wider_fixture_is_refused(self, of_the_class):
        pass
"""


def test_ottla_marker_of_a_module_applies_to_its_fixtures_or_is_refused(tmp_path: Path) -> None:
    code, output = run(tmp_path, MODULE)
    assert (code, "1 passed, 2 errors" in output) == (1, True), output
    told = "the fixture {} uses {}, but the marker ottla of {} needs another broker; use"
    assert told.format("of_another", "ottla_session", "test_users.py") in output
    assert told.format("of_the_class", "ottla_module", "test_users.py::TestOthers") in output


CLOCKS = """
import time
pytestmark = pytest.mark.ottla(clock="manual")
TIMES = []

def test_clock_is_advanced(ottla):
    TIMES.append(ottla.clock.now_ms)
    ottla.clock.advance("7d")
    ottla.create_topic("left")

def test_manual_clock_keeps_its_time_in_the_next_test(ottla):
    assert ottla.clock.now_ms == TIMES[0] + 7 * 86_400_000
    assert topics(ottla.bootstrap) == {"left"}

@pytest.mark.ottla(fresh=True)
@pytest.mark.parametrize("number", range(2))
def test_fresh_broker_has_the_current_time(ottla, number):
    assert topics(ottla.bootstrap) == set()
    assert abs(ottla.clock.now_ms - time.time() * 1_000) < 60_000
    ottla.clock.advance("7d")
"""


def test_fresh_broker_has_a_new_clock(tmp_path: Path) -> None:
    code, output = run(tmp_path, CLOCKS)
    assert (code, "4 passed" in output) == (0, True), output


SUSPENDED = """
import os, signal

def test_failing_test_suspends_the_broker(ottla):
    os.kill(ottla.pid, signal.SIGSTOP)
    raise AssertionError("the first")

def test_suspended_broker_is_replaced(ottla):
    assert topics(ottla.bootstrap) == set()
    os.kill(ottla.pid, signal.SIGSTOP)
"""


def test_broker_stopped_by_sigstop_does_not_block_the_run(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    code, output = run(tmp_path, SUSPENDED)
    assert (code, "1 failed, 1 passed" in output) == (1, True), output
    assert time.monotonic() - begun_s < 30


FORKS = """
import os

@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["ottla", "ottla_session"])
def test_forked_child_leaves_the_broker_and_its_faults(request, kind):
    broker = request.getfixturevalue(kind)
    fault = broker.faults.add(api="Metadata", delay_ms=1)
    pid = os.fork()
    if pid == 0:
        request.config.stash[BROKERS].remove_faults([broker])
        request.config.stash[BROKERS].close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert [left.id for left in broker.faults.all()] == [fault.id]
    assert topics(broker.bootstrap) == set()
"""


def test_forked_test_process_stops_no_broker(tmp_path: Path) -> None:
    code, output = run(tmp_path, "from ottla.testing.pytest_plugin import _BROKERS as BROKERS\n" + FORKS)
    assert (code, "2 passed" in output) == (0, True), output
