"""Each door, cut: its connections end at random bytes of either side, and its service is killed at such bytes."""
