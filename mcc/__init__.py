"""MCC: keeps work orders and hands them to drones."""

__version__ = "0.1.0"
