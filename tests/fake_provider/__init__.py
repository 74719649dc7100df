"""Providers to try by hand: each speaks one form, refuses what the real server refuses, and plays a conversation."""
