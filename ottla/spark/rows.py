"""Which columns the sink takes and the sources give, as Spark names types."""

from __future__ import annotations

OUTPUT = {"topic": "string", "key": "binary", "value": "binary", "headers": "array<struct<key:string,value:binary>>"}
"""Columns of the rows that a job gives the sink, as Spark names types. A row without a key goes to any partition."""

RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""A record of a topic, as the stock connector and the segment source give it."""
