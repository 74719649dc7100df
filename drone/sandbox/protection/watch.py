"""The watch over a running program: protected paths that it makes are put aside while it runs, not only at its end."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from drone.sandbox.places.beneath import opened_beneath
from drone.sandbox.protection import inotify
from drone.sandbox.protection.inotify import Inotify
from drone.sandbox.protection.quarantine import Quarantine
from drone.sandbox.protection.survey import Directory, directories, is_left_out, is_of_interest, read_directory

MOST_WATCHED = 8_192
"""Most directories of one program that are watched; a workspace with more is walked instead."""

LOOK_SECONDS = 0.4
"""Between two looks at the messages of the kernel. A program that ends sooner is judged at its end alone."""

WALK_SECONDS = 5.0
"""Between the beginnings of two walks through a workspace that is too large to be watched."""

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Watch:
    """A thread that watches directories from `begin` to `end`. Each may be called again."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, tops: Sequence[Quarantine]) -> None:
        """Where no thread can be started, nothing is watched: all is judged at the end of the program anyway."""
        if tops and self._thread is None:
            watched = threading.Thread(target=self._run, args=(tops,), name="protected-paths", daemon=True)
            with suppress(RuntimeError):
                watched.start()
                self._thread = watched

    def end(self) -> None:
        """Return when nothing is judged any more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, tops: Sequence[Quarantine]) -> None:
        if self._over.wait(LOOK_SECONDS):
            return
        watched = [WatchedTop(top, self._over) for top in tops]
        try:
            while True:
                for directory in watched:
                    directory.look()
                if self._over.wait(LOOK_SECONDS):
                    return
        finally:
            for directory in watched:
                directory.close()


class WatchedTop:
    """One top with its messages. Without them (too many directories, or the kernel gives none) it is walked.

    `over` ends a walk; `clock` is in seconds. Not safe for several threads.
    """

    def __init__(
        self,
        top: Quarantine,
        over: threading.Event,
        *,
        most: int = MOST_WATCHED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._top = top
        self._over = over
        self._most = most
        self._clock = clock
        self._paths: dict[int, str] = {}
        self._must_walk = True
        self._walk_at = float("-inf")
        self._messages: Inotify | None = None
        with suppress(OSError):
            self._messages = Inotify()

    @property
    def is_watched(self) -> bool:
        """Whether messages are read; otherwise the top is walked."""
        return self._messages is not None

    def look(self) -> None:
        """Judge what has changed since the last look."""
        if self._messages is not None:
            self._judge_messages()
        if (self._must_walk or self._messages is None) and self._clock() >= self._walk_at:
            self._walk()
        for number, path in tuple(self._top.new_repositories.items()):
            # Messages do not tell of a file that is changed through a mapping, or through another name that it has.
            with self._opened(path) as directory:
                if directory is None:
                    del self._top.new_repositories[number]
                else:
                    self._judge(directory)
        with suppress(OSError):
            self._top.restore_links()

    def close(self) -> None:
        if self._messages is not None:
            self._messages.close()
            self._messages = None

    def _judge_messages(self) -> None:
        """Judge the directories of which the messages tell."""
        assert self._messages is not None
        changed, new = set[int](), set[tuple[int, str]]()
        for number, what, name in self._messages.messages():
            if what & inotify.OVERFLOW:
                self._must_walk = True
            elif what & inotify.IGNORED:
                self._paths.pop(number, None)
            elif name:
                if what & inotify.IS_DIRECTORY:
                    new.add((number, name))
                if self._top.looks_at_every_name or is_of_interest(name):
                    changed.add(number)
        for path in [self._paths[number] for number in changed if number in self._paths]:
            with self._opened(path) as directory:
                if directory is not None:
                    self._judge(directory)
        for path in [os.path.join(self._paths[number], name) for number, name in new if number in self._paths]:
            with self._opened(path) as directory:
                if directory is not None and not is_left_out(directory.parts):
                    self._judge_below(directory.fd, directory.parts)

    def _walk(self) -> None:
        began = self._clock()
        self._must_walk = not self._judge_below(self._top.top.fd, [])
        # A walk that takes long is followed by a rest of twice that time: other orders share this process.
        ended = self._clock()
        self._walk_at = max(began + WALK_SECONDS, ended + 2 * (ended - began))

    def _judge_below(self, fd: int, above: Sequence[str]) -> bool:
        """Watch and judge a directory and all below it; False where directories were moved meanwhile."""
        try:
            for directory in directories(fd, [], every=self._top.looks_at_every_name):
                if self._over.is_set():
                    return False
                directory.parts = [*above, *directory.parts]
                if self._is_now_watched(directory):
                    # It is read again: what was made in it before it was watched is told by nobody.
                    again = read_directory(directory.fd, directory.parts, every=self._top.looks_at_every_name)
                    directory.names, directory.into[:] = again.names, again.into
                self._judge(directory)
        except OSError:
            return False
        return True

    def _is_now_watched(self, directory: Directory) -> bool:
        """Begin to watch a directory; False where it was watched already, or nothing is."""
        if self._messages is None:
            return False
        try:
            number = self._messages.add(directory.fd)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self.close()
            return False
        is_new = number not in self._paths
        self._paths[number] = directory.path()
        if len(self._paths) > self._most:
            self.close()
        return is_new

    def _judge(self, directory: Directory) -> None:
        with suppress(OSError):
            self._top.judge(directory)

    @contextmanager
    def _opened(self, path: str) -> Iterator[Directory | None]:
        """The directory at this path, None where there is none any more."""
        fd, directory = -1, None
        with suppress(OSError):
            fd = opened_beneath(self._top.top.fd, path or ".", _OPEN)
            directory = read_directory(fd, path.split("/") if path else [], every=self._top.looks_at_every_name)
        try:
            yield directory
        finally:
            if fd >= 0:
                os.close(fd)
