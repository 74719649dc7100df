"""Rows of doors: of the ways in which orders come by themselves."""
