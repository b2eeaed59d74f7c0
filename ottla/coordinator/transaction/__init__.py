"""The transaction coordinator: states, metadata, and one shard a partition of ``__transaction_state``."""
