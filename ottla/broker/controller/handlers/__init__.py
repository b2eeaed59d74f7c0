"""The APIs that only a controller has or handles differently from a broker: one module for each, named like its schema."""
