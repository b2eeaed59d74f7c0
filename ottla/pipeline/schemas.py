"""What is in the topics, declared once, whichever format it is written in (`spark.formats`)."""

PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS = "purchases", "invoices", "shipments", "dead-letters", "totals"
PURCHASE = "id LONG, user STRING, product STRING, quantity INT, price_cents LONG, at_ms LONG"
INVOICE = "purchase LONG, user STRING, amount_cents LONG, at_ms LONG"
SHIPMENT = "purchase LONG, user STRING, product STRING, quantity INT"
TOTAL = "window_ms LONG, user STRING, product STRING, purchases LONG, quantity LONG, amount_cents LONG"
