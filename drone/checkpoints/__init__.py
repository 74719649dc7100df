"""Checkpoints: the state of a workspace before each change of an order, kept on the host, and orders that revert."""
