"""HTTP: the only room that speaks it to the outside."""
