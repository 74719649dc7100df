"""What decides whether a result counts: gates by schema and rules, and the verifier."""
