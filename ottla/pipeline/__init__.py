"""The data pipeline on PySpark: exactly once from topic to topic. Needs ``pip install 'ottla[pipeline]'``."""
