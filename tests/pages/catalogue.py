"""How each block of the documentation is tested. `test_every_block` fails for a block that is not listed here."""

from __future__ import annotations

import msgspec


class Session(msgspec.Struct, frozen=True):
    """Shell commands of a page, run one after the other in a temporary directory with the page's titled files.

    ``first`` and ``last`` are commands that the page leaves to the reader, and ``files`` exist before the first command.
    ``expected`` are regular expressions that must match the output.
    """

    expected: tuple[str, ...]
    first: str = ""
    last: str = ""
    files: dict[str, str] = {}
    is_slow: bool = True
    needs_spark: bool = False
    needs: str | None = None
    """A package without which the page is skipped."""


class Program(msgspec.Struct, frozen=True):
    """A Python block, with code before and after it that the page leaves to the reader."""

    first: str = ""
    last: str = ""
    is_slow: bool = True


PAGES_TYPED = {
    "docs/index.md": Session(expected=(r"first order", r"PARTITION"), is_slow=False),
    "docs/install.md": Session(expected=(r"ottla \d+\.\d+",)),
    "docs/five-minutes.md": Session(
        expected=(
            r"a\s+1\b",
            r"orders:0 are held at 3 of 5: transaction of producer \d+ epoch 0, transactional id checkout-1 from client web-7",
            r"not committed: .*[Ff]enced",
            r"sequenceDiagram",
            r"abort marker",
        )
    ),
    "docs/pytest.md": Session(expected=(r"1 passed", r"2 passed")),
    "docs/recipes.md": Session(expected=(r"1 passed",)),
    "docs/github-actions.md": Session(expected=()),
    "docs/graduate.md": Session(expected=(r": 0 incomplete",)),
    "docs/troubleshooting.md": Session(expected=(r"orders:0 has no open transaction", r"no damage found")),
    "docs/languages.md": Session(expected=(r"bootstrap: 127\.0\.0\.1:\d+",)),
    "docs/streams.md": Session(expected=(r"lines",)),
    "docs/schema-registry.md": Session(
        expected=(r"\[\]", r'\{"id": 1\}', r"orders-value", r"incompatible", r"1 passed"), needs="grpc_tools"
    ),
    "docs/brokers.md": Session(
        expected=(r"first order|1 record was written", r"2 passed", r"leader of orders-0: [123]", r"1 passed")
    ),
    "docs/console.md": Session(expected=(r"http://127\.0\.0\.1:\d+/console/#token=\S+",)),
    "docs/prompt.md": Session(
        expected=(
            r"o-2.*120",
            r"orders \[\d\] at \d: o-2",
            r"topic orders has 6 partitions, before 3",
            r"group billing was deleted",
            r"2 records were copied to orders",
            r"0 records were copied to orders",
            r"WRITTEN/S",
            r"clients on this machine can use 127\.0\.0\.1:\d+",
        )
    ),
    "docs/control.md": Session(expected=(r'"id": ?1,"fault":\{"api":"EndTxn"',)),
}
"""Pages whose shell blocks form one session, by path. Their titled Python blocks are written to files in the same directory."""

_EACH_ALONE = """\
ottla() {
    if [ "$1" = health ]; then ottla serve; command ottla "$@"; return; fi
    kill %% 2>/dev/null && wait %% || true
    command ottla "$@" --ready-file each.json &
    command ottla health --wait --ready-file each.json
}
"""
"""Shell function for blocks in which each line starts a broker: it replaces the previous broker and waits for the new one."""

_BROKER_FIRST = """\
ottla serve &
ottla health --wait
"""

SESSIONS = {
    ("README.md", "pip install ."): Session(expected=(r"first order", r"PARTITION"), is_slow=False),
    ("docs/run.md", "ottla serve"): Session(
        first=_EACH_ALONE,
        files={"server.properties": "num.partitions=1\n"},
        expected=(r'"event": ?"ready"',),
    ),
    ("docs/faults.md", "ottla serve --control-port 9095 --set ottla.control.token=se"): Session(
        last="ottla fault list --ready-file ready.json\n", expected=(r"delay_ms", r"Fetch")
    ),
    ("docs/pipeline.md", "ottla pipeline generate --rows 200000"): Session(
        first=_BROKER_FIRST,
        expected=(r"export of purchases: 2,000 records", r"exported rows that are not a record"),
        needs_spark=True,
    ),
    ("examples/spark-shop/README.md", "pip install '.[spark]'"): Session(
        expected=(r"settlements\.settlements, batch 0: ", r"sound: each record is accounted for once"), needs_spark=True
    ),
    ("examples/README.md", "cd examples/orders"): Session(
        expected=(r"batch 0: ", r'"order_id":\s*"o-1"', r"o-1\s+1250"), needs_spark=True
    ),
}
"""Shell blocks that are separate sessions."""

_APPLICATION = """\
from confluent_kafka import Consumer, Producer, TopicPartition
from ottla import Broker, Cluster
from ottla.client import KafkaClient


def run_my_application(bootstrap):
    global used
    used = bootstrap
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "checkout-1", "socket.timeout.ms": 2_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", value="paid", partition=0)
    producer.commit_transaction()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "enable.auto.commit": False})
    with KafkaClient(bootstrap) as client:
        count = sum(1 for _ in client.records("orders"))
    consumer.commit(offsets=[TopicPartition("orders", 0, 2 * count)], asynchronous=False)
    consumer.close()


def my_application_recovered():
    with KafkaClient(used) as client:
        return [record.value for record in client.records("orders")] == [b"paid"]
"""

_WRITTEN_PARTITION = """\
from ottla.protocol.records import EndTxnMarker, build_batch, check_produced
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from ottla.storage.real_filesystem import RealFilesystem

written = Log(RealFilesystem(), "data/orders-0", "orders", 0, LogConfig())
producer = {"producer_id": 1000, "producer_epoch": 0, "transactional": True}


def put(key, value, **options):
    batch = build_batch([(key, value)], 1_000, **options)
    written.append_as_leader(batch, check_produced(batch), 1_000)


put(b"a", b"first order")
put(b"b", b"paid", base_sequence=0, **producer)
written.append_marker(EndTxnMarker(1000, 0, True, 0), 1_000, 0)
put(b"c", b"never committed", base_sequence=1, **producer)
written.append_marker(EndTxnMarker(1000, 0, False, 0), 1_000, 0)
written.close()
"""
"""Code that writes a partition with a non-transactional record, a committed record and an aborted record."""

_TOOL = """
import subprocess
import sys


def run_my_application(config):
    assert config["sasl.jaas.config"].endswith(' tokenauth="true";')


def run_tool(file):
    subprocess.run([sys.executable, "-m", "ottla", "topic", "list", "--command-config", str(file)], check=True)
"""
"""An application, and a tool that connects with a properties file."""

PROGRAMS = {
    ("README.md", "from ottla import Broker"): Program(first=_APPLICATION, is_slow=False),
    ("docs/handles.md", "from ottla import Broker"): Program(first=_APPLICATION),
    ("docs/handles.md", 'with broker.faults.add(api="EndTxn", transactional_id="check'): Program(
        first=f"{_APPLICATION}\nbroker = Broker().start()\n", last="broker.close()\n"
    ),
    ("docs/handles.md", "from ottla import Cluster"): Program(first=_APPLICATION),
    ("docs/security-in-tests.md", "from ottla import Acl, Broker"): Program(first="def run_my_application(broker): ..."),
    ("docs/security-in-tests.md", "from ottla import Broker"): Program(first=_TOOL),
    ("docs/internals/use-coordinator.md", "from itertools import count"): Program(is_slow=False),
    ("docs/internals/use-storage.md", "from pathlib import Path"): Program(first=_WRITTEN_PARTITION, is_slow=False),
    ("docs/internals/use-protocol.md", "from struct import unpack_from"): Program(is_slow=False),
}
"""Python blocks that are run as programs."""

PRINTED = {
    ("docs/internals/use-coordinator.md", "markers for [('orders', 0)]"): "from itertools import count",
    ("docs/internals/use-storage.md", "0 plain b'a' b'first order'"): "from pathlib import Path",
    ("docs/internals/use-protocol.md", "InitProducerId 5 from web-7"): "from struct import unpack_from",
}
"""Blocks with the complete output of a program on the same page, and the program's first line."""

TESTS = {
    ("README.md", "from kafka import KafkaProducer"),
    ("docs/pytest.md", '@pytest.mark.ottla(settings={"num.partitions": 3}, features='),
    ("docs/security-in-tests.md", "import pytest"),
}
"""Python blocks that are tests with the plugin. test_programs.py runs all of them with pytest."""

SPARK_PROGRAMS = (
    ("docs/spark.md", "import ottla.spark"),
    ("docs/spark.md", 'spark.readStream.format("kafka").option("startingOffsets", o'),
    ("docs/spark.md", "rows = ottla.spark.arranged(frame, options)"),
    ("docs/spark.md", "listener = ottla.spark.listener(sink, on_progress=print, dea"),
    ("docs/spark.md", "from pyspark.sql import functions as f"),
)
"""Python blocks that need a Spark session and a broker. test_spark.py runs each of them."""

_CONTAINERS = "tests/container/test_testcontainers.py::test_testcontainers_class_starts_the_image"
_FAULTS = "tests/control/faults/test_fault_texts.py::test_faults_in_the_documentation_are_valid"

_SECURED = "tests/wire/test_secured_programs.py::test_documented_python_clients_commit_and_read_on_a_secured_broker"

_FIRST_RUN = "tests/spark/sink/test_first_run.py"
_OWN_SINK = f"{_FIRST_RUN}::test_stream_of_sparks_kafka_sink_continues_in_ottlas_sink_with_the_same_checkpoint"

ELSEWHERE = {
    (
        "docs/spark.md",
        "frames = ottla.spark.arranged(frame, options)",
    ): f"{_FIRST_RUN}::test_dataframe_with_the_option_frame_name_is_written_once_by_the_ottla_format",
    ("docs/spark.md", 'values = spark.read.format("ottla").options(**source).schema'): (
        "tests/spark/segments/test_reading.py::test_segment_read_respects_selected_columns_and_timestamp_bounds"
    ),
    ("docs/spark.md", "with ottla.spark.sinks("): f"{_FIRST_RUN}::test_several_spark_sinks_write_one_batch_at_the_same_time",
    ("docs/spark.md", 'source = {"kafka.bootstrap.servers": "broker:9092", "subscri'): (
        f"{_FIRST_RUN}::test_records_that_cannot_be_decoded_are_written_once_as_dead_letters"
    ),
    ("docs/spark-from-kafka-sink.md", "query = ("): _OWN_SINK,
    ("docs/spark-from-kafka-sink.md", "import ottla.spark"): _OWN_SINK,
    ("docs/spark-from-kafka-sink.md", "listener = ottla.spark.listener(invoices, on_progress=print)"): _OWN_SINK,
    ("docs/spark-from-kafka-sink.md", "pip install 'ottla[spark]'"): (
        "tests/spark/doctor/test_cluster_checks.py::test_spark_doctor_passes_a_healthy_cluster_and_changes_nothing"
    ),
    ("docs/security.md", "ottla serve --user alice:secret \\"): (
        "tests/broker/handlers/test_first_users.py::test_user_created_at_the_first_start_can_authenticate_by_every_scram_mechanism"
    ),
    ("docs/security.md", "sasl.enabled.mechanisms=PLAIN"): (
        "tests/broker/config/test_security.py::test_sasl_mechanism_gets_the_users_of_its_login_module"
    ),
    ("docs/security.md", "authorizer.class.name=org.apache.kafka.metadata.authorizer.S"): (
        "tests/broker/handlers/test_authorisation.py::test_super_user_has_all_permissions_without_acls"
    ),
    ("docs/security.md", "openssl req -x509 -newkey rsa:2048 -nodes -days 90 -subj /CN"): (
        "tests/broker/config/test_security.py::test_certificate_made_as_documented_on_the_security_page_is_usable_as_key_store"
    ),
    ("docs/security.md", "kafka-configs --bootstrap-server localhost:9092 --alter --en"): (
        "tests/wire/test_reloaded_certificates.py::test_reloaded_certificate_applies_to_new_connections_and_closes_no_old_connection"
    ),
    ("docs/security.md", "listeners=SASL_SSL://broker1.example:9093"): (
        "tests/wire/test_secured_nodes.py::test_secured_cluster_of_ottla_survives_the_death_of_its_leader"
    ),
    ("docs/security.md", "ottla serve server.properties --brokers 3 --set listeners=SA"): (
        "tests/wire/test_secured_cluster.py::test_nodes_of_a_secured_cluster_use_no_plaintext_listener"
    ),
    ("docs/security.md", "ottla quota set --user alice --client-id app producer_byte_r"): (
        "tests/wire/test_prompt.py::test_quota_commands_set_list_and_remove_quotas"
    ),
    (
        "docs/security.md",
        "listeners=SSL://0.0.0.0:9093",
    ): "tests/broker/config/test_security.py::test_tls_keys_and_certificates_may_be_files",
    ("docs/security.md", "bootstrap.servers=broker.example:9093"): (
        "tests/wire/test_secured_commands.py::test_each_command_connects_by_every_security_protocol"
    ),
    ("docs/security.md", "ottla topic list --command-config client.properties"): (
        "tests/wire/test_secured_commands.py::test_acl_commands_add_list_and_remove_acls"
    ),
    ("docs/security-in-tests.md", "from confluent_kafka import Consumer, Producer"): _SECURED,
    ("docs/security-in-tests.md", "from kafka import KafkaConsumer, KafkaProducer"): _SECURED,
    ("docs/security-in-tests.md", "import asyncio"): _SECURED,
    ("docs/troubleshooting.md", "ottla health --data-dir .ottla/data"): (
        "tests/wire/test_directories.py::test_stray_partition_directory_is_reported_and_its_records_can_be_read_again"
    ),
    ("docs/brokers.md", "ottla cluster grow --data-dir data --brokers 3 --replication"): (
        "tests/wire/test_cluster_growth.py::test_single_broker_grows_to_a_cluster_of_three_while_clients_continue"
    ),
    (
        "examples/README.md",
        "pip install . confluent-kafka pytest",
    ): "tests/wire/test_packaging.py::test_example_tests_pass_with_the_wheel",
    ("examples/README.md", "pip install . confluent-kafka pytest django fastapi httpx2"): (
        "tests/wire/test_examples.py::test_python_examples_pass"
    ),
    ("examples/spark-shop/README.md", "python -m shop chaos --seed 7 --kills 6 --picture chaos.svg"): (
        "examples/spark-shop/tests/test_chaos.py::test_kills_of_driver_executor_and_broker_lose_and_duplicate_nothing"
    ),
    ("examples/spark-shop/README.md", "pip install pytest pyyaml"): (
        "tests/spark/test_spark_shop.py::test_tests_of_the_spark_shop_example_pass"
    ),
    ("examples/README.md", "cd examples/go && go test ./..."): "tests/wire/test_examples.py::test_go_example_passes",
    ("docs/client-faults.md", "from ottla import recipes"): (
        "tests/wire/test_client_faults.py::test_kafka_python_sends_requests_to_the_new_coordinator_after_a_move"
    ),
    ("docs/client-faults.md", "producer.begin_transaction()"): (
        "tests/wire/test_client_faults.py::test_librdkafka_send_offsets_to_transaction_does_not_return_after_a_broker_restart"
    ),
    ("docs/containers.md", 'new KafkaContainer(DockerImageName.parse("ottla:8.0.0").asCo'): _CONTAINERS,
    ("docs/containers.md", 'KafkaContainer("ottla:8.0.0").with_kraft()'): _CONTAINERS,
    ("docs/containers.md", 'kafka.Run(ctx, "ottla:8.0.0")'): _CONTAINERS,
    ("docs/containers.md", 'await new KafkaContainer("ottla:8.0.0").start()'): _CONTAINERS,
    ("docs/faults.md", '{"api": "Produce", "topic": "orders", "partition": 3, "error'): _FAULTS,
    ("docs/faults.md", "- api: EndTxn"): _FAULTS,
    (
        "docs/faults.md",
        "from ottla import Api, Error",
    ): "tests/wire/test_control.py::test_typed_faults_in_the_fault_documentation_run",
    ("docs/pytest.md", "expected 2 records in topic 'invoices', found 2 after 0.0 s "): (
        "tests/testing/test_expectation.py::test_expect_difference_lists_missing_and_unexpected_records_in_order"
    ),
    ("docs/faults.md", "from ottla import Broker"): "tests/wire/test_control.py::test_program_in_the_fault_documentation_runs",
    ("docs/pipeline.md", "PACKAGES=org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,or"): (
        "tests/pipeline/kills/test_submit.py::test_killed_spark_submit_job_resumes"
    ),
    ("docs/pytest.md", "[pytest]"): "tests/wire/test_plugin.py::test_pytest_ini_settings_apply_to_all_brokers",
}
"""Blocks that another test covers, by reading the page or by equivalent code, with the name of this test."""

_JUNIT, _GO, _NODE = "examples/junit/OrdersTest.java", "examples/go/ottla_test.go", "examples/node/ottla.test.js"

EXCERPTS = {
    ("docs/github-actions.md", "jobs:"): "examples/ci/github-actions.yml",
    ("docs/languages.md", "@ExtendWith(OttlaExtension.class)"): _JUNIT,
    ("docs/languages.md", 'var produce = OttlaExtension.Fault.on("Produce").topic("orde'): _JUNIT,
    ("docs/languages.md", "void transactionTimesOutWhenTheClockIsAdvanced(@OttlaExtensi"): _JUNIT,
    ("docs/languages.md", "void producerFollowsTheLeader(@OttlaExtension.Ottla OttlaExt"): _JUNIT,
    ("docs/languages.md", "func TestOnlyCommittedOrdersAreRead(t *testing.T) {"): _GO,
    ("docs/languages.md", 'moved := broker.Faults.Error("NOT_LEADER_OR_FOLLOWER", Fault'): _GO,
    ("docs/languages.md", 'broker := Start(t, "--clock", "manual")'): _GO,
    ("docs/languages.md", "cluster := StartCluster(t, 3)"): _GO,
    ("docs/languages.md", 'const { Broker, Cluster } = require("./ottla");'): _NODE,
    ("docs/languages.md", 'const moved = await broker.faults.error("NOT_LEADER_OR_FOLLO'): _NODE,
    ("docs/languages.md", 'const timed = await Broker.start({ clock: "manual" });'): _NODE,
    ("docs/languages.md", "const cluster = await Cluster.start({ brokers: 3 });"): _NODE,
    ("docs/connect.md", "clusters = source, target"): "tests/wire/test_mirror.py",
    ("docs/streams.md", "Properties settings = new Properties();"): "tests/wire/streams/WordCount.java",
    ("docs/security-in-tests.md", "settings.load(Files.newBufferedReader(Path.of(arguments[0]))"): (
        "tests/wire/secured_clients/Secured.java"
    ),
    ("docs/security-in-tests.md", "trusted := x509.NewCertPool()"): "tests/wire/secured_clients/franz/main.go",
    ("docs/security-in-tests.md", "config.Net.TLS.Enable, config.Net.TLS.Config = true, &tls.Co"): (
        "tests/wire/secured_clients/sarama/main.go"
    ),
    ("docs/security-in-tests.md", "const config = JSON.parse(process.argv[2]);"): "tests/wire/secured_clients/secured.js",
}
"""Blocks whose lines must occur in the same order in a tested file. A placeholder (``{...}``) in the file matches any text."""

_BENCHMARKS = (
    "python -m benchmarks.compare --pairs 5 --scale 0.25 --only t",
    "python -m benchmarks.compare --pairs 5 --scale 0.5 --only tr",
    "python -m benchmarks.compare --durable --pairs 5 --scale 0.5",
    "python -m benchmarks.failover --pairs 5 --scale 0.4",
    "python -m benchmarks.storage",
    "python -m benchmarks.groups",
    "python -m benchmarks.acls",
    "python -m benchmarks.secured --pairs 3 --scale 0.25",
    "python -m benchmarks.pipeline reads sink small",
    "python -m benchmarks.spark_sinks --against kafka --bytes 100",
)

NOT_RUN = {
    ("docs/comparison.md", "python -m benchmarks.neighbours --starts 5"): "takes a minute, and wants the machine for itself",
    ("docs/compose.md", "services:"): "needs a container engine; its variables are settings",
    ("docs/connect.md", "connect-mirror-maker.sh mirror.properties"): "tests/wire/test_mirror.py starts the class by itself",
    ("README.md", "make run"): "runs the tests themselves",
    ("docs/brokers.md", "ottla cluster rebuild-controller --data-dir NEW_DIR --from B"): (
        "needs a cluster without its controller; tests/operations has one"
    ),
    (
        "docs/performance.md",
        "python -m benchmarks.install_size",
    ): "installs packages; a test has its limit",
    ("docs/pipeline.md", "one micro-batch, one transaction"): "a drawing",
    **dict.fromkeys(
        (("docs/performance.md", command) for command in _BENCHMARKS), "takes minutes, and needs the machine for itself"
    ),
    ("examples/spark-shop/README.md", "pip wheel --no-deps --wheel-dir wheels ../.."): "needs a container engine",
    ("docs/containers.md", "docker run -p 127.0.0.1:9092:9092 ottla:8.0.0"): "needs a container engine",
    ("docs/spark.md", "pip install ottla 'pandas>=2.2' 'pyarrow>=17' 'numpy>=1.26' "): "needs an unpacked Spark",
    ("docs/simulation.md", "make simulate SEEDS=1-1000"): ("takes an hour; tests/simulation plays a few seeds"),
}
"""Blocks that cannot be run in tests, with the reason. test_every_block.py checks that the commands in them exist."""

GENERATED = {"docs/commands.md"}
"""Pages that are generated from the code. Their code blocks need no entry here (tests/tools/test_pages.py)."""
