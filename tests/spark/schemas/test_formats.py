"""Values as JSON and Avro, without Spark: they round-trip, and other readers of the format can read the bytes."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from fastavro import schemaless_reader
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.schemas import INVOICE, PURCHASE, SHIPMENT, TOTAL
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.avro import avro_schema
from ottla.spark.schemas.formats import AVRO, FORMATS, JSON, _check_package

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "LONG": st.integers(-(1 << 63), (1 << 63) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "STRING": st.text(),
}


def rows(schema: str) -> st.SearchStrategy[dict[str, object]]:
    fields = [part.split() for part in schema.split(",")]
    return st.fixed_dictionaries({name: st.none() | VALUES[kind] for name, kind in fields})


@pytest.mark.parametrize("schema", [PURCHASE, INVOICE, SHIPMENT, TOTAL])
@given(data=st.data())
def test_record_values_of_every_spark_format_round_trip(schema: str, data: st.DataObject) -> None:
    row = data.draw(rows(schema))
    assert json.loads(JSON.pack(row, schema)) == row
    packed = io.BytesIO(AVRO.pack(row, schema))
    assert schemaless_reader(packed, json.loads(avro_schema(schema)), None) == row
    assert not packed.read()


def test_missing_field_of_a_value_is_decoded_as_null() -> None:
    packed = AVRO.pack({"purchase": 1}, SHIPMENT)
    assert packed == bytes((2, 2, 0, 0, 0))


def test_spark_value_formats_are_json_and_avro() -> None:
    assert list(FORMATS) == ["json", "avro"]


@pytest.mark.parametrize("name", list(FORMATS))
def test_formats_that_need_spark_4_are_refused_on_spark_3(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    from pyspark.sql import functions

    from ottla.spark.schemas.decoded_records import _values

    monkeypatch.delattr(functions, "is_valid_utf8")
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    with pytest.raises(PipelineError, match=rf"read of {name} needs Spark 4, and this is Spark 3\.5\.9: read values of a schema"):
        _values(name)


def test_avro_package_of_a_spark_connect_server_is_not_checked_in_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql import utils

    monkeypatch.setattr(utils, "is_remote", lambda: True)
    monkeypatch.setitem(sys.modules, "py4j.java_gateway", None)
    _check_package()
