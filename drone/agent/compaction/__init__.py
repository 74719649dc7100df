"""Compaction: how a conversation that outgrows its model's context is shortened without losing what it agreed on."""
