"""What database, Celery, Redis, processes and this machine say of the same orders: compared, judged, repaired."""
