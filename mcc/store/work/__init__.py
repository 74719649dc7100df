"""What the store does: placing, claiming, journaling, ending orders, and what belongs to them."""
