"""Schedules over HTTP, and the part of the sweep that fires them."""
