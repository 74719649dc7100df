"""Rules over results: CEL expressions and JSON Schemas, bounded and fail closed. No I/O."""
