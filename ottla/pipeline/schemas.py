"""What is in the topics, declared once, whichever format it is written in (`pipeline.formats`)."""

PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS = "purchases", "invoices", "shipments", "dead-letters", "totals"
PURCHASE = "id LONG, user STRING, product STRING, quantity INT, price_cents LONG, at_ms LONG"
INVOICE = "purchase LONG, user STRING, amount_cents LONG, at_ms LONG"
SHIPMENT = "purchase LONG, user STRING, product STRING, quantity INT"
TOTAL = "window_ms LONG, user STRING, product STRING, purchases LONG, quantity LONG, amount_cents LONG"

OUTPUT = {"topic": "string", "key": "binary", "value": "binary", "headers": "array<struct<key:string,value:binary>>"}
"""Columns of the rows that a job gives the sink, as Spark names types. A row without a key goes to any partition."""

RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""A record of a topic, as the stock connector and the segment source give it."""
