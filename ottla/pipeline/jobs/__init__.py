"""The jobs of ``ottla pipeline``, one in each module."""
