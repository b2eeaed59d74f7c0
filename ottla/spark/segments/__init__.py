"""Reads a broker's segment files without the broker: the committed offsets, and the records as columns.

- `columns`: decodes records to Arrow columns.
- `directories`: finds the partitions of a topic in the directories of a broker's ``log.dirs``.
- `directory`: reads a data directory while a broker may be writing to it.
- `parquet`: writes the records of a split as a Parquet file, without the JVM.
- `reading`: plans the splits of a topic's segment files, and reads their records as Arrow batches.
- `source`: ``spark.read.format("ottla")``: reads a topic from a broker's segment files.
- `streaming`: ``spark.readStream.format("ottla")``: reads a topic from segment files as they grow.
- `unwritten`: finds partitions that have no directory yet, in the metadata log.
"""
