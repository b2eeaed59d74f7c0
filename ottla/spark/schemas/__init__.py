"""Formats of values: JSON, Avro, and the wire format of a schema registry.

- `avro`: makes Avro schemas of plain columns.
- `formats`: the formats of the topics' values: JSON, or Avro in its plain binary form, without a schema registry's header.
- `registered`: columns of values in a schema registry's wire format.
- `registry`: a client of schema registries (Confluent's interface), and values in their wire format: a zero byte, the schema's id
  in four bytes, Avro.
"""
