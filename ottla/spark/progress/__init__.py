"""Progress records of streams: batch number and input offsets, committed in the transaction of each batch.

- `active_sinks`: state that all sinks of a process share.
- `input_topics`: detects that an input topic was deleted and created again (KIP-516).
- `marks`: progress records in the consumer group of a transactional id.
- `progress_topic`: progress records in a compacted topic.
- `resume`: finds the offsets from which a stream continues after its checkpoint was lost.
- `skipped_batches`: detects batches that Spark has recorded as done, but that were never given to the sink.
"""
