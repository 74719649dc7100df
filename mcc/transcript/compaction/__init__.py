"""What compaction decides by code alone: where a conversation is cut, and what its summary must not lose."""
