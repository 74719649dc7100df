"""Agent files: their text read, checked and turned into definitions. No I/O."""
