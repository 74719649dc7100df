"""Benchmarks: the published performance figures, repeatable on any machine."""
