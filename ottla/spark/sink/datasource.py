"""``format("ottla")``: segment files as a batch or streaming source, and the exactly-once sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from ottla.spark.errors import PipelineError
from ottla.spark.rows.rows import RECORD
from ottla.spark.segments.source import SegmentReader, wanted_by
from ottla.spark.segments.streaming import SegmentStream
from ottla.spark.sink.options import parse_options
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

CHECKPOINT = "checkpointlocation"


_ONCE = (
    "format('ottla') writes where Spark runs each stage and each task once: start the session with"
    " spark.stage.maxConsecutiveAttempts=1 and without spark.speculation"
)


class OttlaSource(DataSource):
    """The segment source without a sink. `ottla.spark.register` registers it with a session in which Spark may repeat stages or
    copy tasks.

    A sink could not write exactly once there, because neither tasks nor the committing process would detect repeated writes
    (`attempts`).
    """

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        prepare()
        return RECORD

    def reader(self, schema: StructType) -> Any:
        prepare()
        return SegmentReader(wanted_by(dict(self.options)), schema.fieldNames())

    def streamReader(self, schema: StructType) -> Any:
        prepare()
        return SegmentStream(dict(self.options), schema.fieldNames())

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        raise PipelineError(f"{_ONCE}, or, without Spark Connect, give ottla.spark.sink(options) to foreachBatch")

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        raise PipelineError(f"{_ONCE}, or, without Spark Connect, call ottla.spark.write_once(frame, options, name)")


class OttlaSourceAndSink(OttlaSource):
    """The source and the sink, for sessions in which Spark runs each stage and each task once."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from ottla.spark.sink.stream_writer import StreamWriter

        given = {name.lower(): value for name, value in dict(self.options).items()}
        checkpoint = given.get(CHECKPOINT)
        if not checkpoint:
            raise PipelineError(
                "format('ottla') needs the option 'checkpointLocation': the progress record is compared with the checkpoint"
            )
        return StreamWriter(parse_options(given), checkpoint, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from ottla.spark.sink.frame_writer import FrameWriter, frame_in

        given = {name.lower(): value for name, value in dict(self.options).items()}
        if overwrite:
            raise PipelineError("format('ottla') appends to topics and cannot replace their records: give mode('append')")
        name, number = frame_in(given)
        return FrameWriter(parse_options(given), name, number, schema)
