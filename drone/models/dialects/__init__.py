"""One module per wire format, and per server whose use of its format differs."""
