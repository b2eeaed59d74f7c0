"""Progress records of streams, which are written in the transaction of each batch, and checks of their transactional ids.

- `active_sinks`: shared state of the sinks of one process, by cluster and transactional id.
- `input_topics`: the topics that a stream reads, by the ids that they had when the stream first read them (KIP-516).
- `marks`: the progress record in the offset metadata of a group: the number of a batch and its input offsets.
- `progress_topic`: the progress topic: a compacted topic with the last progress record of each stream, and of each name given to
  `write_once`.
- `resume`: finds the offsets at which a stream without its checkpoint resumes.
- `skipped_batches`: detects batches that were never given to the sink although Spark has recorded them as done.
"""
