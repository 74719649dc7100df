"""Live streams: hints from Redis in, the entries of each order in order out."""
