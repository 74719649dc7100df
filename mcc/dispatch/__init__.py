"""Dispatch: nudges drones through Celery and Redis, and sweeps what was left behind."""
