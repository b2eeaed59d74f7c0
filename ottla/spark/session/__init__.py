"""Makes a Spark session, without overriding settings that the user made.

- `given_settings`: finds the settings that a user has already made for Spark, before its JVM runs, so that none of them is
  overridden.
- `session`: makes the Spark session of every job.
"""
