"""This room is for Celery's consumer, which counts the messages that it refuses and logs."""

from typing import Any

from celery.worker.consumer import Consumer as CelerysConsumer


class Consumer(CelerysConsumer):  # type: ignore[misc]
    """Refused are: no task, a task of another name, a content type that is not JSON, a body that cannot be read."""

    def on_unknown_message(self, body: Any, message: Any) -> None:
        self.app.message_refused()
        super().on_unknown_message(body, message)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        self.app.message_refused()
        super().on_unknown_task(body, message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        self.app.message_refused()
        super().on_invalid_task(body, message, exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self.app.message_refused()
        super().on_decode_error(message, exc)
