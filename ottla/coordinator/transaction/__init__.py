"""The transaction coordinator: states, metadata, and one shard for each partition of ``__transaction_state``."""
