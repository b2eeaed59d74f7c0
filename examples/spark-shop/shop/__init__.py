"""The streams of a shop on Spark, which process each record exactly once.

- `settings`: the settings, from a TOML file and the environment.
- `schemas`: the topics and the schemas of their values.
- `topics`: creates the topics.
- `generate`: generates orders, payments and products, always the same for the same seed.
- `inputs`: decodes the records of a topic, and refuses records that the jobs cannot use.
- `lateness`: finds the rows that Spark drops because they are older than the watermark.
- `jobs`: the jobs; each module has the transformation of one job.
- `writing`: writes a batch with its receipt, by the sinks of `ottla.spark`.
- `running`: runs jobs until their topics are read, or until a signal.
- `findings`: the findings of an audit, and functions that apply rules to static frames.
- `audit`: proves that each record is accounted for once.
- `cluster`: a standalone Spark cluster of processes on this machine.
- `chaos`: kills driver, executors and broker while the jobs run, and ends with the audit.
- `picture`: draws a chaos run as SVG.
"""
