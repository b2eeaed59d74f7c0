"""Errors raised in tasks, and the messages that the user sees."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import Code
from ottla.spark.errors import BrokerRefused, Fenced, MustAbort, PipelineError, cause_of, label_of, raised_in_task, refusal

TRACE = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "foreach_batch.py", line 238, in write
{}

	at org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PipelineError("a row has no topic"), PipelineError),
        (BrokerRefused("writing", Code.INVALID_RECORD, "two\nlines"), PipelineError),
        (Fenced("shop"), Fenced),
        (MustAbort("writing: TRANSACTION_ABORTABLE"), MustAbort),
    ],
)
def test_pipeline_error_of_a_spark_task_keeps_its_type_and_message(error: Exception, kind: type[Exception]) -> None:
    label = label_of(error)
    for text in (label, TRACE.format(label)):
        own = raised_in_task(text, "shop")
        assert type(own) is kind
        assert str(own) == str(error)
        assert cause_of(text) == str(error)


def test_spark_task_error_of_another_library_is_no_pipeline_error() -> None:
    assert raised_in_task(TRACE.format("ValueError: ottla"), "shop") is None


def test_pipeline_error_names_an_unknown_kafka_error_code() -> None:
    assert str(BrokerRefused("asking", 32_000)) == "asking: error 32000"


def test_kafka_errors_of_the_sink_are_classified_by_remedy() -> None:
    assert type(refusal("shop", BrokerRefused("committing", Code.PRODUCER_FENCED))) is Fenced
    assert type(refusal("shop", BrokerRefused("committing", Code.TRANSACTION_ABORTABLE))) is MustAbort
    assert type(refusal("shop", BrokerRefused("committing", Code.INVALID_TXN_STATE))) is BrokerRefused


def test_sink_reports_only_data_loss_as_data_loss() -> None:
    assert "retention has removed records" in cause_of("org.apache.spark.SparkException: [KAFKA_DATA_LOSS.X] gone")
    assert cause_of("the class com.acme.X could not be found\n\tat x") == "the class com.acme.X could not be found"
