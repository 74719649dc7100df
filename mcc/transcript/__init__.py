"""What models are shown: messages from entries, bases and set-ups, and how a conversation is shortened. No I/O."""
