"""The doctor: what database, Celery, Redis and processes say of the same orders, compared, judged, and repaired."""
