"""A whole family under test: real processes that can be killed, stopped and cut off one by one.

    with Family(Plan(database="sqlite"), directory) as family:
        family.failpoints.arm("F10", "kill9")
        order_id = family.clients.submit(prompt_of("a", seed=1))
        family.quiesce()
        evidence = family.finish()

What happened lies in `directory` afterwards, for whoever judges it; the database is there until the family is left.
"""

import contextlib
import json
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mcc.local.presence import LocalService
from mcc.store.database.migrate import upgrade
from tests.faults.assembly import Places
from tests.faults.clients import Clients
from tests.faults.failpoints import ArmedFile
from tests.faults.jsonlines import JsonLines, read
from tests.faults.members import Launched, Member, NotInTime, alive_in, clean_environment, until
from tests.faults.observer import LeaseSamples, Observer, ResourceSamples, Sampler, State
from tests.faults.pgbouncer import pgbouncer_before
from tests.faults.plan import Plan
from tests.faults.script import Play
from tests.faults.services import Background, Redis, own_database, target_of, through
from tests.faults.tcp import Proxy
from tests.faults.viewers import Viewer
from tests.ports import free_port

MCC_APP, DRONE_APP = "tests.faults.mcc_app", "tests.faults.drone_app"
END_SECONDS = 15.0
"""A drone ends within 9.4 s of a signal, also while it starts; before that, SQLite may wait 5 s for a lock."""
READY_SECONDS = 60.0


class Family:
    """Starts on entering; on leaving, nothing of it is left, whatever state it was in."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.places = Places(directory)
        self.failpoints: ArmedFile
        self.redis: Redis
        self.llm: Member
        self.mccs: list[Member] = []
        self.drones: list[Member] = []
        self.links: dict[str, Proxy] = {}
        self.clients: Clients
        self.observer: Observer
        self.database_url = ""
        self._way = ""
        self.provoked_stale = False
        """Set it when a drone was made to write too late."""
        self._token = secrets.token_hex(24)
        self._key = f"canary-{secrets.token_hex(12)}"
        self._ports: list[int] = []
        self._services: list[Member] = []
        self._viewers: list[Viewer] = []
        self._began = 0.0
        self._finished = False
        self._undo = contextlib.ExitStack()
        self._background: Background
        self._sampler: Sampler
        self._faults: JsonLines

    def __enter__(self) -> "Family":
        """Raises `psycopg.OperationalError` where there is no PostgreSQL, `NoPgBouncer` where none can be started."""
        try:
            self._start()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    @property
    def members(self) -> Sequence[Member]:
        return (*self.mccs, *self.drones)

    @property
    def urls(self) -> Sequence[str]:
        """The control services, by index."""
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    def told(self, fault: str, target: str, **detail: object) -> None:
        """Log a fault that was injected from here."""
        self._faults.write({"t": time.time(), "fault": fault, "target": target, "detail": detail})

    def llm_orders(self, **orders: Any) -> None:
        """What the fake model server does wrong from now on; see `llm_faults.Orders`."""
        whole = self.places.llm_control.with_suffix(".new")
        whole.write_text(json.dumps(orders))
        whole.rename(self.places.llm_control)

    def link(self, name: str, method: str) -> None:
        """Call a method of a link's proxy: down, up, heal, blackhole, half_open, reset_peers."""
        proxy = self.links[name]
        self.told(method, name)

        async def called() -> None:
            done = getattr(proxy, method)()
            if done is not None:
                await done

        self._background.run(called())

    def worsen(self, name: str, fault: str, **toxics: object) -> None:
        """Set toxics of a link (`tcp.Toxics`), until its proxy is healed."""
        self.told(fault, name, **toxics)
        for toxic, value in toxics.items():
            setattr(self.links[name].toxics, toxic, value)

    @property
    def token(self) -> str:
        """What a client of the control services says."""
        return self._token

    def watch(self, order_id: str, *, seed: int | None = None) -> Viewer:
        """A new viewer of an order; with a seed one that leaves and comes back at random."""
        name = f"viewer-{len(self._viewers) + 1}"
        viewer = Viewer.on(self.places.viewers, name, order_id, self.urls, self._token, seed)
        self._viewers.append(viewer)
        self._background.start(viewer.watch())
        return viewer

    def state(self, order_id: str) -> State:
        """Raises LookupError."""
        return next(state for state in self.observer.states() if state.order_id == order_id)

    def holder(self, order_id: str) -> Member | None:
        """The drone that holds an order now."""
        incarnation = self.state(order_id).incarnation
        name = self.observer.drone_of(incarnation) if incarnation else None
        return next((member for member in self.drones if member.name == name), None)

    def kill(self, member: Member) -> None:
        self.told("kill9", member.name)
        member.kill()

    def restart(self, member: Member) -> None:
        """Start again what is gone, and wait until it is there."""
        member.end()
        member.start()
        self.ready()

    def restart_lost(self) -> None:
        """Start everything again that ended, and wait until it is there; what ends meanwhile is started as well."""

        def there() -> bool:
            self._start_lost()
            names = {member.name for member in self.drones}
            return all(service.is_ready() for service in services) and names <= self._up(services[0])

        services = [LocalService("127.0.0.1", port, self._token) for port in self._ports]
        until(there, READY_SECONDS, lambda: self._tails("everything is up again"))

    def ready(self, seconds: float = READY_SECONDS) -> None:
        """Every control service answers, and knows every drone that runs. Raises `NotInTime`."""
        services = [LocalService("127.0.0.1", port, self._token) for port in self._ports]
        until(lambda: all(service.is_ready() for service in services), seconds, lambda: self._tails("mcc answers"))
        names = {member.name for member in self.drones if member.runs}
        until(lambda: names <= self._up(services[0]), seconds, lambda: self._tails("all drones are up"))

    @contextlib.contextmanager
    def nobody(self) -> Iterator[None]:
        """Meanwhile nothing runs that has a file of the database open; then everything is started again."""
        for member in self.members:
            self.kill(member)
        self._sampler.stop()
        self.observer.close()
        try:
            yield
        finally:
            self._sample()
        self.restart_lost()

    def quiesce(
        self, seconds: float = 90.0, still_seconds: float = 30.0, *, restarting: bool = False
    ) -> Sequence[State]:
        """Wait until every order is final; all of them. `restarting`: start meanwhile what has ended.

        Raises `NotInTime` after `seconds`, and when none of them moved for `still_seconds`.
        """
        end, moved_at, before = time.monotonic() + seconds, time.monotonic(), 0
        while True:
            if restarting:
                self._start_lost()
            states = self.observer.states()
            if all(state.final for state in states):
                return states
            progress = sum(state.last_seq for state in states)
            if progress != before:
                moved_at, before = time.monotonic(), progress
            if time.monotonic() > min(end, moved_at + still_seconds):
                raise NotInTime(f"not quiet: {self._unfinished(states)}; evidence: {self.places.directory}")
            time.sleep(0.05)

    def finish(self) -> Path:
        """End all processes in good order and complete the evidence; its directory. Once only."""
        for viewer in self._viewers:
            with contextlib.suppress(NotInTime):
                until(lambda viewer=viewer: viewer.over, 10.0, "the viewer saw the end")  # type: ignore[misc]
        self._sampler.stop()
        for member in self.members:
            member.go_on()
            member.term()
        slow = [member.name for member in self.members if not self._ended(member)]
        left = {member.name: [pid for group in member.groups for pid in alive_in(group)] for member in self.members}
        temporary = sorted(path.name for path in (self.places.private / "tmp").iterdir())
        processes = [{"member": name, "pid": pid} for name, pids in left.items() for pid in pids]
        for member in (*self.members, *self._services):
            member.end()
        self._write("processes.json", {"alive": processes, "temporary": temporary, "slow": slow})
        self._name_orders()
        self._finished = True
        self._write("run.json", self._run())
        return self.places.directory

    def _start(self) -> None:
        plan, places = self.plan, self.places
        places.prepare()
        self._began = time.time()
        self._faults = JsonLines(places.faults)
        self.failpoints = ArmedFile(places.failpoints)
        self.database_url = self._undo.enter_context(own_database(plan.database, places.private, plan.server))
        self._way = self.database_url
        if plan.pooler is not None:
            self._way = self._undo.enter_context(pgbouncer_before(self.database_url, plan.pooler))
        upgrade(self._way)
        self._background = Background()
        self._undo.callback(self._background.close)
        self._undo.callback(self._end_all)
        bare = clean_environment(places.private)
        self.redis = Redis(places.private, places.logs, bare, plan.redis)
        self._services.append(self.redis.member)
        self.redis.start()
        llm_port = self._start_llm(bare)
        self._make_links(llm_port)
        places.configure(self.links["drone-llm"].port if "drone-llm" in self.links else llm_port)
        self._ports = [free_port() for _ in range(plan.mccs)]
        self.mccs = [self._mcc(f"mcc-{index}", port, bare) for index, port in enumerate(self._ports, 1)]
        self.drones = [self._drone(f"drone-{index}", bare) for index in range(1, plan.drones + 1)]
        for member in self.members:
            member.start()
        self.clients = Clients(self.urls, self._token, places, plan.model)
        self._undo.callback(self.clients.close)
        self.observer = Observer(self.database_url)
        self._undo.callback(self.observer.close)
        self._sample()
        self._undo.callback(lambda: self._sampler.stop())
        self._write("run.json", self._run())
        self.ready()

    def _sample(self) -> None:
        leases, resources = (JsonLines(self.places.directory / f"{name}.jsonl") for name in ("leases", "resources"))
        self._sampler = Sampler(LeaseSamples(self.observer, leases), ResourceSamples(self._pids, resources))
        self._sampler.start()

    def _start_lost(self) -> None:
        for member in self.members:
            if not member.runs:
                self.told("restart", member.name)
                member.start()

    def _end_all(self) -> None:
        for member in (*self.members, *self._services):
            member.end()

    def _pids(self) -> Mapping[str, int]:
        return {member.name: member.pid for member in self.members if member.runs}

    def _start_llm(self, bare: Mapping[str, str]) -> int:
        arguments = [sys.executable, "-m", "tests.faults.llm", str(self.places.llm_log)]
        arguments += ["--control", str(self.places.llm_control), "--port", str(port := free_port())]
        self.llm = Member("llm", Launched(arguments), bare, self.places.logs / "llm.log")
        self._services.append(self.llm)
        self.llm.start()
        until(lambda: "ready" in self.llm.said(), 20.0, lambda: f"the model server: {self.llm.said()}")
        return port

    def _make_links(self, llm_port: int) -> None:
        targets = {
            "redis": ("127.0.0.1", self.redis.port),
            "pg": target_of(self._way, 5432),
            "llm": ("127.0.0.1", llm_port),
        }
        for name in self.plan.links:
            proxy = Proxy(targets[name.partition("-")[2]], seed=self.plan.seed)
            self._background.run(proxy.start())
            self._undo.callback(lambda proxy=proxy: self._background.run(proxy.stop()))  # type: ignore[misc]
            self.links[name] = proxy

    def _environment(self, kind: str, name: str, bare: Mapping[str, str]) -> dict[str, str]:
        plan, private = self.plan, self.places.private
        redis_url, database_url = self.redis.url, self._way
        if proxy := self.links.get(f"{kind}-redis"):
            redis_url = through(redis_url, proxy.port)
        if proxy := self.links.get(f"{kind}-pg"):
            database_url = through(database_url, proxy.port)
        return {
            **bare,
            **self.places.told(name),
            "MCC_DATABASE_URL": database_url,
            "MCC_REDIS_URL": redis_url,
            "MCC_DATA_DIR": str(private),
            "MCC_CONFIG": str(self.places.settings),
            "MCC_PROMPTS_DIR": str(self.places.prompts),
            "MCC_LEASE_SECONDS": f"{plan.lease_seconds:g}",
            "MCC_RENEW_SECONDS": f"{plan.renew_seconds:g}",
            "MCC_SWEEP_SECONDS": f"{plan.sweep_seconds:g}",
            **plan.settings,
        }

    def _mcc(self, name: str, port: int, bare: Mapping[str, str]) -> Member:
        own = {"MCC_HOST": "127.0.0.1", "MCC_PORT": str(port), "MCC_TOKEN": self._token}
        environment = {**self._environment("mcc", name, bare), **own}
        return self._member(name, MCC_APP, environment)

    def _drone(self, name: str, bare: Mapping[str, str]) -> Member:
        own = {
            "DRONE_NAME": name,
            "DRONE_SLOTS": str(self.plan.slots),
            "DRONE_POLL_SECONDS": f"{self.plan.poll_seconds:g}",
            "HARNESS_KEY": self._key,
        }
        return self._member(name, DRONE_APP, {**self._environment("drone", name, bare), **own})

    def _member(self, name: str, module: str, environment: Mapping[str, str]) -> Member:
        return Member(name, Launched([sys.executable, "-m", module]), environment, self.places.logs / f"{name}.log")

    def _up(self, service: LocalService) -> set[str]:
        status, body = service.get("/api/v1/drones")
        items = body.get("items", []) if status == 200 else []
        return {item["name"] for item in items if item["status"] == "up" and self._is_of_now(item)}

    def _is_of_now(self, item: Mapping[str, Any]) -> bool:
        """Whether this is the process that runs under the name, and not one that was killed a moment ago."""
        return any(member.name == item["name"] and member.pid == item["pid"] for member in self.drones)

    def _ended(self, member: Member) -> bool:
        try:
            member.wait(END_SECONDS)
        except NotInTime:
            return False
        return True

    def _unfinished(self, states: Sequence[State]) -> str:
        told = [
            f"{state.order_id} {state.status} ({state.reason}) at {state.last_seq}, attempt {state.attempt}, "
            f"last {', '.join(self.observer.last_kinds(state.order_id))}"
            for state in states
            if not state.final
        ]
        return "; ".join(told)

    def _tails(self, what: str) -> str:
        return what + "".join(f"\n--- {member.name}\n{member.said()[-800:]}" for member in self.members)

    def _name_orders(self) -> None:
        """The model server knows orders by their keys; the evidence names them by their ids."""
        keys: dict[str, str] = {}
        for order_id, spec in self.observer.specs().items():
            if play := Play.of(json.loads(spec)["prompt"]):
                keys.setdefault(play.key, order_id)
        lines = [{**line, "key": line["order"], "order": keys.get(line["order"])} for line in read(self.places.llm_log)]
        self.places.llm_log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _run(self) -> Mapping[str, object]:
        plan = self.plan
        return {
            "seed": plan.seed,
            "campaign": plan.campaign,
            "database_url": self.database_url,
            "lease_seconds": plan.lease_seconds,
            "began": self._began,
            "ended": time.time() if self._finished else None,
            "provoked_stale": self.provoked_stale,
            "slots": plan.slots,
            "drones": plan.drones,
            "limits": {},
            "canaries": {"key of the model": self._key, "token of the service": self._token},
            **plan.judged,
        }

    def _write(self, name: str, value: object) -> None:
        (self.places.directory / name).write_text(json.dumps(value, indent=1) + "\n")
