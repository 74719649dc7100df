"""Upkeep of what is stored: retention, packing, backup, examination."""
