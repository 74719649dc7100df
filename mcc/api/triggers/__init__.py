"""Triggers over HTTP: deliveries from outside, and what became of them."""
