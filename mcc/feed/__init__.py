"""This room is for live streams: hints from Redis in, each order's entries in order out."""
