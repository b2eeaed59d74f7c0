"""Reads Spark's checkpoint: the number of a stream's current batch, and the offsets up to which the batch reads.

- `checkpoint`: reads the offsets up to which a batch reads each source (Spark's OffsetSeqLog).
- `checkpoint_files`: reads a checkpoint in a process without a JVM, with pyarrow's file systems.
- `file_sources`: reads the names of the files that a batch reads (Spark's FileStreamSourceLog).
- `query`: finds the running stream of a batch in Spark's JVM.
"""
