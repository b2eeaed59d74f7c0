"""Creates a Spark session without overriding the user's settings.

- `given_settings`: finds the user's settings for Spark before Spark's JVM runs.
- `session`: creates the Spark session of every job.
"""
