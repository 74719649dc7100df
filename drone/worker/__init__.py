"""Worker: the one room of a drone with Celery, Redis and the database."""
