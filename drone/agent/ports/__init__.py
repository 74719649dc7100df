"""What agents and the world outside exchange: messages, models, journals, reports, artifacts."""
