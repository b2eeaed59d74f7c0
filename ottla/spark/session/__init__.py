"""Creates a Spark session without overriding the user's settings.

- `given_settings`: finds the settings that a user has already made for Spark, before its JVM runs.
- `session`: creates the Spark session of every job.
"""
