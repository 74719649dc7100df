"""What from outside becomes an order: signatures of deliveries, what they say, and the orders made of them; no I/O."""
