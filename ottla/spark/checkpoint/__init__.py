"""Reads Spark's checkpoint: which batch a stream is at, and up to which offsets a batch reads.

- `checkpoint`: reads from Spark's checkpoint up to which offsets a batch reads each source (OffsetSeqLog of Spark).
- `checkpoint_files`: reads a checkpoint in a process without a JVM, with pyarrow's file systems.
- `file_sources`: reads from Spark's checkpoint which files a batch has read (FileStreamSourceLog of Spark).
- `query`: finds the stream that a batch belongs to in Spark's JVM.
"""
