"""The git tools."""
