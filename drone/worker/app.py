"""This room is for the name that Celery's command line looks up: `celery -A drone.worker.app worker`, or `flower`."""

from drone.settings import load
from drone.worker.celery_app import DroneApp

app = DroneApp(load)
