"""The data pipeline on PySpark, exactly once from topic to topic. It needs ``pip install 'ottla[pipeline]'``."""
