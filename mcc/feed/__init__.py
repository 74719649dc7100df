"""Live event streams: hints from Redis trigger reads of the journal, whose entries go to any number of viewers."""
