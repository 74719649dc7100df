"""Calls of the HTTP APIs of forges and chats, and what of other people's text is written there."""
