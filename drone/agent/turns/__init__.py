"""One turn, the tool sets in it and how their calls end."""
