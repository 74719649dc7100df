"""Dispatch to drones: nudges over Celery, messages over Redis pub/sub, and the sweep that makes up for lost ones."""
