"""This room is for Celery's thread pool, with an end and a terminate that suit orders."""

import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

import structlog
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadsPool

from drone.worker.inbox import TOLD_CHARACTERS

log = structlog.get_logger("drone.pool")


class Cancelling(Protocol):
    """The part of a drone that a pool needs."""

    def cancel(self, thread: int, principal: str) -> None: ...

    def drain(self) -> None: ...


class TaskPool(ThreadsPool):  # type: ignore[misc]
    """Celery knows each task by its thread, and Flower's terminate cancels the order that the thread waits for."""

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        **_: Any,
    ) -> ApplyResult:
        started = self.executor.submit(
            apply_target, self._counted(target), args, kwargs, callback, accept_callback, getpid=threading.get_ident
        )
        return ApplyResult(started)

    def _counted(self, target: Callable[..., Any]) -> Callable[..., Any]:
        """`target` tells of whatever its task raises; it raises itself only when the message has no arguments."""

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return target(*args, **kwargs)
            except (TypeError, ValueError) as problem:
                log.warning("a message without arguments was dropped", problem=repr(problem)[:TOLD_CHARACTERS])
                self.app.message_refused()
                raise

        return run

    def terminate_job(self, pid: int, signal: int | None = None) -> None:
        if (drone := self._drone()) is not None:
            drone.cancel(pid, "celery")

    def on_stop(self) -> None:
        if (drone := self._drone()) is not None:
            drone.drain()
        super().on_stop()

    def _drone(self) -> Cancelling | None:
        return cast("Cancelling | None", getattr(self.app, "drone", None))
