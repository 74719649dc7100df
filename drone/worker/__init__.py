"""The only room of a drone that uses Celery, Redis and the database."""
