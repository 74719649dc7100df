"""This room is for models: one file per wire format, and what is put around them."""
