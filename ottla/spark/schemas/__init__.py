"""Formats of values: JSON, Avro, and the wire format of a schema registry.

- `avro`: converts Spark's schemas of plain columns to Avro schemas.
- `formats`: the formats of the topics' values: JSON, and binary Avro without a schema registry's header.
- `registered`: reads and writes columns of values in a schema registry's wire format.
- `registry`: a client of schema registries (Confluent's interface), and a decoder for their wire format.
"""
