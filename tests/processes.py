"""Tests in several processes, forked from one that has collected them: collecting takes each process twenty seconds,
and what all of them only read is in memory once.

    scripts/test                        # as many as suit this machine
    pytest -p tests.processes --processes 4

A group of tests, or else a file, is run by one process, as its tests share what is made once. Groups are of tests whose
families of processes mostly wait, for leases and each other; files mostly compute. As many processes as there are
cores, but half of them at most, begin with files, and the others with groups: all that waits at once left the cores
idle, and all that computes fought over them afterwards.
"""

import os
import pickle
import signal
import threading
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Literal, NoReturn

import pytest
from pytest import CallInfo, Config, Item, Session, TestReport

GROUP = "group"
"""The marker of tests that one process runs: `@pytest.mark.group("family")`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "run the tests in so many processes, forked once they are collected"
    parser.addoption("--processes", type=int, default=0, metavar="COUNT", help=told)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: Session) -> bool | None:
    option = session.config.option
    if option.processes < 2 or option.collectonly or option.usepdb or session.testsfailed:
        return None
    Spread(session).run(option.processes)
    return True


def scope_of(item: Item) -> str:
    """The group that the test belongs to, else its file."""
    marker = item.get_closest_marker(GROUP)
    return item.nodeid.partition("::")[0] if marker is None else str(marker.args[0])


def next_scope(waiting: Iterable[str], *, computes: bool) -> str | None:
    """The first file for a process that `computes`, else the first group; the first of all where none is left of what
    it begins with. None: nothing is left."""
    waiting = list(waiting)
    return next((scope for scope in waiting if scope.endswith(".py") == computes), next(iter(waiting), None))


def begins_with_files(place: int, processes: int, cores: int) -> bool:
    """Whether the process in this place, from 0 on, is one of those that compute."""
    return place < min(cores, processes // 2)


@dataclass(eq=False)
class Process:
    """One that was forked, as the first process knows it. `running`: what it was given and has not finished, by place
    in the collection."""

    pid: int
    connection: Connection
    computes: bool
    running: list[int] = field(default_factory=list)
    has_ended: bool = False


class Spread:
    """The tests of a session, spread over processes. Reports come back, and are told here as if the tests ran here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hook = session.config.hook
        self._waiting: dict[str, list[int]] = {}
        for place, item in enumerate(session.items):
            self._waiting.setdefault(scope_of(item), []).append(place)
        self._processes: dict[Connection, Process] = {}
        self._threads = threading.active_count()
        # Made once, for all of them.
        self._base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self, count: int) -> None:
        """All tests, in `count` processes. Raises `Session.Failed` after as many failures as were asked for."""
        if self._threads > 1:
            raise pytest.UsageError("A thread was started while tests were collected: the processes would not have it.")
        if (reporter := self._session.config.pluginmanager.get_plugin("terminalreporter")) is not None:
            reporter.showfspath = False  # the next report is of another file
        cores = os.cpu_count() or 1
        try:
            for place in range(min(count, len(self._waiting))):
                self._fork(begins_with_files(place, count, cores))
            while self._processes:
                for connection in wait(list(self._processes)):
                    self._hear(self._processes[connection])  # type: ignore[index]
        finally:
            # Those that are left take down what they have set up, and end.
            for process in self._processes.values():
                os.kill(process.pid, signal.SIGINT)
            for process in self._processes.values():
                os.waitpid(process.pid, 0)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _fork(self, computes: bool, running: Sequence[int] = ()) -> None:
        here, there = Pipe()
        if (pid := os.fork()) == 0:
            here.close()
            for connection in self._processes:
                connection.close()
            run_as_told(self._session, there, self._base, running)
        there.close()
        self._processes[here] = Process(pid, here, computes, list(running))

    def _hear(self, process: Process) -> None:
        try:
            kind, *told = process.connection.recv()
        except (EOFError, ConnectionResetError):
            self._bury(process)
            return
        if kind == "next":
            process.connection.send(self._next(process))
        elif kind == "report":
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=told[0])
            self._hook.pytest_runtest_logreport(report=report)
        elif kind == "finished":
            process.running.remove(told[0])
            item = self._session.items[told[0]]
            self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif kind == "warning":
            self._hook.pytest_warning_recorded.call_historic(kwargs=pickle.loads(told[0]))
        else:
            process.has_ended = True

    def _next(self, process: Process) -> list[int]:
        """Places of tests; none when it has done its part."""
        scope = next_scope(self._waiting, computes=process.computes)
        if scope is None or self._session.shouldfail:
            return []
        places = self._waiting.pop(scope)
        process.running += places
        return places

    def _bury(self, process: Process) -> None:
        """What a process that crashed had still to do, another one does; the test that it crashed in has failed."""
        del self._processes[process.connection]
        process.connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        if process.has_ended or not process.running:
            return
        crashed, *rest = process.running
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        self._tell_crash(self._session.items[crashed], how)
        if not self._session.shouldfail:
            self._fork(process.computes, rest)

    def _tell_crash(self, item: Item, how: str) -> None:
        report = TestReport(
            item.nodeid, item.location, {}, "failed", f"The process that ran it ended with {how}.", "call"
        )
        self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class Teller:
    """In a process that was forked: what pytest would tell a person, told to the first process."""

    def __init__(self, config: Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: Literal["config", "collect", "runtest"],
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        if when != "runtest":
            return  # it was told before there were processes
        told = warnings.WarningMessage(
            UserWarning(f"{warning_message.category.__name__}: {warning_message.message}"),
            UserWarning,
            warning_message.filename,
            warning_message.lineno,
        )
        arguments = {"warning_message": told, "when": when, "nodeid": nodeid, "location": location}
        self._connection.send(("warning", pickle.dumps(arguments)))


def run_as_told(session: Session, connection: Connection, base: Any, running: Sequence[int]) -> NoReturn:
    """Run the tests in these places, and then those that the first process names, and end."""
    status = 1
    try:
        manager = session.config.pluginmanager
        manager.unregister(name="terminalreporter")
        # What is captured goes to a file, which processes must not share.
        if (capture := manager.get_plugin("capturemanager")) is not None:
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        manager.register(Teller(session.config, connection))
        _run_all(session, connection, base, running)
        connection.send(("ended",))
        status = 0
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        # The first process is gone, or ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        session._setupstate.teardown_exact(None)
    finally:
        os._exit(status)


def _run_all(session: Session, connection: Connection, base: Any, running: Sequence[int]) -> None:
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    item = None
    places = list(running) or _asked(connection)
    while places:
        # One folder for the tests of all would be looked through by each.
        factory._basetemp = base / str(places[0])
        factory._basetemp.mkdir(mode=0o700, exist_ok=True)
        for place, following in pairwise((*places, None)):
            assert place is not None
            item = session.items[place]
            # After the last one, what the whole session uses stays, and nothing else.
            nextitem: Any = session if following is None else session.items[following]
            item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            connection.send(("finished", place))
        places = _asked(connection)
    if item is not None:
        call = CallInfo.from_call(lambda: session._setupstate.teardown_exact(None), "teardown")
        if call.excinfo is not None:
            report = item.ihook.pytest_runtest_makereport(item=item, call=call)
            item.ihook.pytest_runtest_logreport(report=report)


def _asked(connection: Connection) -> list[int]:
    connection.send(("next",))
    places: list[int] = connection.recv()
    return places
