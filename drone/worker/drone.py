"""A drone: assembles, starts and ends everything that a worker process needs."""

import faulthandler
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Literal

import structlog

from drone.crew import Crew
from drone.settings import Settings
from drone.threads import in_thread
from drone.worker.claiming import Claimant, Slots
from drone.worker.keeper import Counting, Heartbeat, Keeper, LeaseTimes
from drone.worker.liveness import Stall
from drone.worker.loop import SharedLoop, schema_problem, wait_in_thread
from drone.worker.metrics import DroneMetrics, MetricsUnavailable
from drone.worker.monitors import monitored, redis_of
from drone.worker.workshop import Exits, Workshop
from mcc import __version__
from mcc.contracts.drones import AS_ROOT, AS_ROOT_ADVICE, Capability, Registration, SandboxState
from mcc.dispatch.broker import DispatchUnavailable
from mcc.dispatch.fit import installation_of, unfit
from mcc.dispatch.nudge import Nudger
from mcc.dispatch.publisher import Publisher
from mcc.dispatch.sweep import SweepLoop
from mcc.processors import PROCESSORS
from mcc.store.database.errors import StoreUnavailable
from mcc.store.store import Store

log = structlog.get_logger("drone")

LOOK_SECONDS = 1.0
START_SECONDS = 60.0
HIRE_LOOK_SECONDS = 0.1
HAND_BACK_SECONDS = 1.0
"""How much longer than `drain_hand_back_seconds` handing orders back may take."""


GivenUp = Literal["broken", "unreachable"]
"""Why a drone gives up: the process itself, or its way to the database."""

HELPLESS = "its lease could not be renewed for minutes, although the database answers"


class DroneCannotStart(Exception):
    """This drone cannot start here; the sentence says what to do."""


class DroneProcess:
    """One worker process: an event loop that runs orders, the lease under which it holds them, a sweep, an orderly end.

    `wedged` is called when the loop has hung for `wedged_seconds`, when the workshop fails, and when the process has no
    memory or threads left; it should end the process.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        hire: Callable[[], Crew],
        *,
        wedged: Callable[[], None] = lambda: os._exit(1),
    ) -> None:
        self._settings = settings
        self._store = store
        self._hire = hire
        self._sandbox = SandboxState()
        self._wedged = wedged
        self._loop = SharedLoop()
        self._stall = Stall(settings.wedged_seconds / 3)
        self._slots = Slots(settings.slots)
        self._counting = Counting()
        redis = redis_of(settings)
        self._metrics = metrics_of(settings)
        self._nudger = Nudger(redis, settings.queues)
        self._publisher = Publisher(redis, monitored(settings))
        if self._metrics is not None:
            self._publisher.metrics = self._metrics.work
        self._draining = False
        # A SimpleQueue, because `drain` also runs in signal handlers: its `put` is reentrant, `Event.set` is not.
        self._drain_requests: SimpleQueue[None] = SimpleQueue()
        self._stop_worker: Callable[[GivenUp], None] = lambda why: None
        self._why_given_up = ""
        self._end_requests: SimpleQueue[None] = SimpleQueue()
        self.drained = threading.Event()
        self._ending = threading.Thread(target=self._end, name="drain", daemon=True)
        self._keeper: Keeper
        self._workshop: Workshop
        self._sweep: SweepLoop

    def start(
        self, pause: Callable[[float], None] = wait_in_thread, stop_worker: Callable[[GivenUp], None] = lambda why: None
    ) -> None:
        """Register and begin to look for work; waits for an unavailable database. Raises `DroneCannotStart`.

        `pause` waits for so many seconds, and may raise to end the start, before anything is registered. `stop_worker`
        is called when this drone gives up by itself; it should end the process with a code that says so.
        """
        self._stop_worker = stop_worker
        try:
            patience = self._settings.database_wait_seconds
            if problem := schema_problem(self._store, pause, patience_seconds=patience):
                raise DroneCannotStart(f"This drone cannot use the database: {problem}.")
            self._refuse_unfit_redis()
            if self._metrics is not None:
                self._metrics.serve()
            self._loop.start()
            self._loop.submit(PROCESSORS.keep_together())
            # Before registering, because the registration lists the crew's agents, tools and models.
            crew, self._sandbox = self._hired(pause)
            self._keeper = self._make_keeper(crew)
            incarnation = self._keeper.register()
        except BaseException as problem:
            # An interpreter that ends under a thread that still runs aborts.
            self._loop.stop()
            if isinstance(problem, StoreUnavailable):
                raise DroneCannotStart(f"The database cannot be reached: {problem}") from problem
            if isinstance(problem, MetricsUnavailable):
                raise DroneCannotStart(str(problem)) from problem
            raise
        self._workshop = self._loop.submit(self._open(crew)).result(START_SECONDS)
        self._loop.submit(self._workshop.run()).add_done_callback(self._workshop_ended)
        self._sweep = SweepLoop(
            self._store,
            self._nudger,
            self._publisher,
            sweeper=incarnation,
            sweep_seconds=self._settings.sweep_seconds,
        )
        self._keeper.on_drain = lambda drain: self._loop.call(lambda: self._workshop.draining.told(drain))
        # After the workshop is open: a renewal may find the lease lost, and then stops what runs in the workshop.
        self._keeper.start()
        self._sweep.start()
        self._ending.start()

    def _hired(self, pause: Callable[[float], None]) -> tuple[Crew, SandboxState]:
        """The crew and its sandbox, which may take seconds. Raises TimeoutError, and whatever `pause` raises."""
        hiring, over = self._loop.submit(self._hire_crew()), time.monotonic() + START_SECONDS
        while not wait([hiring], HIRE_LOOK_SECONDS).done:
            pause(0.0)
            if time.monotonic() > over:
                raise TimeoutError(f"the crew was not there within {START_SECONDS:g} s")
        return hiring.result()

    def _refuse_unfit_redis(self) -> None:
        """Raises `DroneCannotStart` for one that lacks something; without any Redis a drone still polls the
        database."""
        try:
            problem = unfit(redis_of(self._settings), installation_of(self._store))
        except DispatchUnavailable as away:
            log.warning("it is not known yet whether Redis is fit", problem=str(away))
            return
        if problem:
            raise DroneCannotStart(problem)

    def work(self, order_id: str) -> None:
        """Carry out this order if a slot is free and it can be claimed; returns when it ended, left, or was handed
        back."""
        if self._draining:
            return
        if self._workshop.wanting and self._slots.free > 0:
            self._loop.call(partial(self._workshop.arrived, missed=False))
            return
        if not self._slots.take():
            self._loop.call(partial(self._workshop.arrived, missed=True))
            return
        done = False
        try:
            done = self._await(self._loop.submit(self._workshop.serve(order_id)))
            if not done and not self._draining:
                self._count_if_unknown(order_id)
        finally:
            self._slots.release()
        if done and self._workshop.wanting and not self._draining:
            self._loop.call(self._workshop.freed)

    def cancel(self, order_id: str, principal: str) -> None:
        """Request a cancel of this order if it runs here; a draining drone hands it back instead."""
        if not self._draining:
            self._loop.submit(self._workshop.request_cancel(order_id, "terminated as a Celery task", principal))

    def watch_over(self) -> int:
        """Have the reaper kill this process when it freezes, or does not end when told to.

        Answers the file descriptor for `signal.set_wakeup_fd`.
        """
        return self._workshop.watch_over()

    def start_canary(self, queue: str, restart: Callable[[], None]) -> None:
        """Begin to send canaries on `queue`; `restart` reconnects the consumer when a canary does not come back."""
        why = "messages that it sends to itself do not come back"
        self._loop.submit(self._workshop.start_canary(queue, restart, lambda: self.give_up(why)))

    def canary_seen(self, token: str) -> None:
        self._loop.submit(self._workshop.canary_seen(token))

    def message_refused(self) -> None:
        """Count a message that names no order and is no canary. Call from any thread."""
        self._counting.add("refused_messages")

    def drain(self) -> None:
        """Begin to end: claim nothing more, and hand back the orders that do not end soon. Safe in signal handlers."""
        self._draining = True
        self._end_requests.put(None)
        self._drain_requests.put(None)

    def told_to_end(self) -> None:
        """Wait until this drone was told to end, also while it still starts. For one thread."""
        self._end_requests.get()

    def give_up(self, why: str, kind: GivenUp = "broken") -> None:
        """End in good order, so that a supervisor starts another process; `why` is part of a sentence."""
        if self._draining:
            return
        log.critical("this drone gives up and restarts", drone=self._settings.name, why=why)
        self._why_given_up = why
        self._stop_worker(kind)
        self.drain()

    @property
    def draining(self) -> bool:
        return self._draining

    def _await(self, serving: "Future[bool]") -> bool:
        while not serving.done():
            with suppress(TimeoutError, CancelledError):
                # Not `result`: a TimeoutError of the order itself would look like the end of this wait.
                serving.exception(LOOK_SECONDS)
            # The loop may have ended with the order still in it: nobody would ever set the result.
            if self.drained.is_set() or not self._loop.alive:
                serving.cancel()
                return False
        return not serving.cancelled() and serving.result()

    def _count_if_unknown(self, order_id: str) -> None:
        """Count a message as refused if this database does not have its order: another program or service sent it."""
        try:
            known = self._store.journal.reached([order_id])
        except StoreUnavailable:
            return
        if not known:
            log.warning("a message names no order of this database", order_id=order_id)
            self.message_refused()

    def _end(self) -> None:
        self._drain_requests.get()
        log.info("draining", drone=self._settings.name, active=self._slots.active)
        # Before the orders are wound down: other drones divide waiting orders among those that are up, and this one no
        # longer is.
        self._keeper.drain()
        try:
            seconds = self._settings.drain_hand_back_seconds + HAND_BACK_SECONDS
            self._loop.submit(self._workshop.wind_down(self._why_given_up)).result(seconds)
        except Exception:
            log.exception("orders could not be handed back; a sweep will find them")
        try:
            self._leave()
        finally:
            self.drained.set()
            log.info("drained", drone=self._settings.name)

    def _leave(self) -> None:
        self._sweep.stop(0.5)
        # Before the lease ends: a later renewal would take it for lost.
        self._keeper.stop(0.5)
        try:
            self._keeper.leave()
        except Exception as problem:
            log.warning("the drone could not end its lease", problem=str(problem))

    def close(self) -> None:
        """Free the remaining resources; call after `drained` is set."""
        try:
            self._loop.submit(self._workshop.close()).result(2.0)
        except Exception:
            log.exception("the crew did not go in good order")
        if self._metrics is not None:
            self._metrics.close()
        self._loop.stop()
        self._nudger.close()
        self._publisher.close()
        self._store.close()

    async def _hire_crew(self) -> tuple[Crew, SandboxState]:
        crew = self._hire()
        sandbox = await crew.sandbox()
        if sandbox.as_root:
            log.warning(AS_ROOT, drone=self._settings.name, advice=AS_ROOT_ADVICE)
        return crew, sandbox

    async def _open(self, crew: Crew) -> Workshop:
        exits = Exits(self._die, self.give_up)
        claimant = Claimant(self._settings.name, self._keeper, self._slots)
        workshop = Workshop(self._settings, self._store, crew, claimant, self._nudger, exits)
        if self._metrics is not None:
            workshop.count_in(self._metrics)
        crew.servers.watch(lambda: in_thread(self._describe, crew))
        return workshop

    def _describe(self, crew: Crew) -> None:
        """Update the registration after the tools of the MCP servers changed."""
        self._keeper.describe(registration(self._settings, crew, self._sandbox, self._store.texts.keep))

    def _workshop_ended(self, ended: "Future[None]") -> None:
        if not ended.cancelled() and (problem := ended.exception()) is not None:
            self._die(problem)

    def _die(self, problem: BaseException) -> None:
        """End this process at once; other drones take its orders over, as after a kill."""
        try:
            # Without memory even this may fail; the process ends all the same.
            log.critical("the drone is broken and ends", exc_info=problem)
        finally:
            self._wedged()

    def _make_keeper(self, crew: Crew) -> Keeper:
        return Keeper(
            self._store.leases,
            registration(self._settings, crew, self._sandbox, self._store.texts.keep),
            self._heartbeat,
            LeaseTimes(self._settings.lease_seconds, self._settings.renew_seconds),
            on_lost=lambda incarnation: self._end_lost(crew, incarnation),
            on_helpless=lambda: self.give_up(HELPLESS, "unreachable"),
        )

    def _heartbeat(self) -> Heartbeat:
        """What the next renewal reports; ends the process instead when the event loop hangs."""
        self._exit_if_wedged()
        return Heartbeat(self._slots.active, self._counting.counters)

    def _end_lost(self, crew: Crew, incarnation: str) -> None:
        """End the programs and executions of a lost lease before anything can start under a new one."""
        if crew.custody is not None:
            # Programs at once and in this thread: the loop may be busy, and another drone may work in the same
            # directory by now.
            crew.custody.end_term()
        self._loop.call(lambda: self._workshop.fence(incarnation))

    def _exit_if_wedged(self) -> None:
        stalled_seconds = self._stall.look(self._loop.ticked_at)
        if stalled_seconds > self._settings.wedged_seconds:
            log.critical("the event loop hangs; this process ends", stalled_seconds=round(stalled_seconds, 1))
            faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
            self._wedged()


def metrics_of(settings: Settings) -> DroneMetrics | None:
    """Metrics that are not served yet; None where the settings name no address for them."""
    if settings.metrics is None:
        return None
    host, _, port = settings.metrics.rpartition(":")
    return DroneMetrics(host.strip("[]"), int(port))


def registration(settings: Settings, crew: Crew, sandbox: SandboxState, keep: Callable[[str], str]) -> Registration:
    """The registration of this process; its incarnation is filled in when it registers.

    `keep` stores an agent's prompt and answers its digest. Prompts are stored separately because the row of the
    registration is written with every heartbeat.
    """
    return Registration(
        incarnation="",
        name=settings.name,
        pid=os.getpid(),
        host=socket.gethostname(),
        version=__version__,
        queues=settings.queues,
        slots=settings.slots,
        sandbox=sandbox,
        agents=tuple(_without_prompt(agent, keep) for agent in crew.agents()),
        tools=crew.tools(),
        models=crew.models(),
        workspace_roots=tuple(str(root) for root in settings.workspace_roots),
    )


def _without_prompt(capability: Capability, keep: Callable[[str], str]) -> Capability:
    sheet = capability.agent
    if sheet is None:
        return capability
    bare = sheet.definition.model_copy(update={"prompt": ""})
    kept = sheet.model_copy(update={"definition": bare, "prompt_digest": keep(sheet.definition.prompt)})
    return capability.model_copy(update={"agent": kept})
