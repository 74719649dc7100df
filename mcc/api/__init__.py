"""This room is for HTTP: the only one that speaks it to the outside."""
