"""An order on a terminal: a tree that grows with its journal, or one line per entry."""
