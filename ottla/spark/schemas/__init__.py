"""Formats of values: JSON, Avro, and the wire format of a schema registry.

- `avro`: converts Spark's schemas of plain columns to Avro schemas.
- `dead_letters`: builds dead letters: copies of records that cannot be processed, with headers for the reason and the position.
- `decoded_records`: `read`, which decodes a topic's values and keeps the records that cannot be decoded as dead letters.
- `formats`: the formats of the topics' values: JSON, and binary Avro without a schema registry's header.
- `protobuf`: converts Protobuf messages of a schema registry to records of a Spark schema.
- `registered`: reads and writes columns of values in a schema registry's wire format.
- `registry`: a client of schema registries (Confluent's interface), and a decoder for their wire format.
"""
