"""How far a stream has come: progress records in the transaction of each batch, and who else uses the same transactional id.

- `active_sinks`: what the sinks of one process know of each other, by cluster and transactional id.
- `input_topics`: the topics that a stream reads, by the ids that they had when the stream first saw them (KIP-516).
- `marks`: marks: with a batch, in its transaction, its number and the offsets up to which it has read are committed.
- `progress_topic`: the progress topic: a compacted topic with the last progress record of each stream, and of each name given to
  `write_once`.
- `resume`: how a stream goes on whose checkpoint is lost: from the offsets that were committed with what it has written.
- `skipped_batches`: batches that were not given to the sink, which Spark has noted as done all the same.
"""
