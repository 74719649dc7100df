"""Where a drone has its place in Redis, and what Celery's monitors hear of it."""

from drone.settings import Settings
from mcc.contracts.wire import worker_name
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.task_events import TaskEvents


def redis_of(settings: Settings) -> RedisAt:
    """Where this drone's installation has its place in Redis."""
    return RedisAt(settings.redis_url, settings.redis_prefix)


def monitored(settings: Settings) -> TaskEvents:
    """Reports this drone's orders to Celery's monitors, which know the drone by the name of its worker."""
    return TaskEvents(
        redis_of(settings), worker_name(settings.name), lambda: settings.redactor, titles=settings.flower_titles
    )
