"""Messages to webhooks: what they say, how they are signed and sent, and when they are tried again."""
