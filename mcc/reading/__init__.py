"""One order as people look at it: overview, rows, time line, from its entries in short and never all of its texts."""
