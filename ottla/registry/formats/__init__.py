"""Schema types: how their texts are parsed, compared and written.

- `avro_names`: rewrites Avro schemas with short or full names, without a library.
- `avro_schema`: Avro schemas, parsed and compared by Apache Avro's library.
- `json_compatibility`: the rules by which one JSON Schema accepts all values of another.
- `json_nodes`: JSON Schemas as typed nodes.
- `json_schema`: JSON Schemas, checked by the library ``jsonschema``.
- `json_text`: parses and writes JSON Schemas as JSON, without a library.
- `parsed`: the interface of a parsed schema.
- `protobuf_compatibility`: the rules by which one Protobuf schema reads all data of another.
- `protobuf_schema`: Protobuf schemas, compiled by ``protoc``.
- `protobuf_text`: prints Protobuf schemas.
- `protobuf_tokens`: compares Protobuf texts without a compiler.
- `types`: the schema types by name, and which schemas are equal.
"""
