"""Models: one file per wire format, and what is put around them."""
