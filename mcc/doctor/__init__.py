"""`mcc doctor`: compares database, Celery, Redis and the processes of this machine, reports findings, makes repairs."""
