"""The shop: purchases become invoices and shipments, exactly once, whatever breaks."""
