"""Records: their batches, and how they are written to topics and read from them.

- `producing`: writes records with an idempotent producer, so that a request which is repeated after a lost response writes nothing
  twice.
- `reading`: reads topics up to their current end, or without end.
- `record`: records for people, and the batches that contain them.
"""
