"""Directories of workspaces: opened without a way out, and written."""
