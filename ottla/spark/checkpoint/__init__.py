"""Reads Spark's checkpoint: the number of a stream's current batch, and the offsets up to which the batch reads.

- `checkpoint`: reads from Spark's checkpoint the offsets up to which a batch reads each source (OffsetSeqLog of Spark).
- `checkpoint_files`: reads a checkpoint in a process without a JVM, with pyarrow's file systems.
- `file_sources`: reads from Spark's checkpoint the names of the files that a batch has read (FileStreamSourceLog of Spark).
- `query`: finds the running stream of a batch in Spark's JVM.
"""
