"""Drone: carries out one work order."""
