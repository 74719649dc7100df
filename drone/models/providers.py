"""Providers: allowed addresses, the default model, and keys printed by a command of the operator."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from drone.agent.ports.model import BadReply, ModelError
from drone.settings import Settings
from mcc.addresses import is_loopback
from mcc.configuration.providers import OLLAMA, PROVIDERS, Provider, provider
from mcc.processors import PROCESSORS
from mcc.rules.patterns import Pattern

PROBE_SECONDS = 0.3

_API_VERSION = Pattern(r"api-version=[0-9A-Za-z.-]{1,40}")


def configured_provider(name: str, settings: Settings) -> Provider | None:
    """The provider, at the address that the operator configured for it; None for an unknown name."""
    known = provider(name)
    address = settings.base_urls.get(name)
    return known.at(address) if known and address else known


def default_name(settings: Settings, probe: Callable[[str], str | None]) -> str | None:
    """The model of the first provider that has a key, else that of an Ollama with a model; None without either.

    `probe` returns the first model of the Ollama at an address.
    """
    for known in PROVIDERS:
        if any(map(settings.key, known.key_names)):
            return f"{known.name}/{known.first_model}"
    local = OLLAMA.at(settings.base_urls.get(OLLAMA.name, OLLAMA.base_url))
    model = probe(local.base_url.removesuffix(local.version_path))
    return model and f"{local.name}/{model}"


def first_model_of_ollama(base_url: str) -> str | None:
    """The newest chat model of the Ollama at this address; None when none answers within `PROBE_SECONDS`."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", f"{parts.path}/api/tags")
        listing = json.loads(connection.getresponse().read(1 << 20))
        return next(_chat_models(listing), None)
    except (OSError, ValueError, http.client.HTTPException, RecursionError):
        return None
    finally:
        connection.close()


def _chat_models(listing: object) -> Iterator[str]:
    models = listing.get("models") if isinstance(listing, dict) else None
    for model in models if isinstance(models, list) else ():
        name = model.get("name") if isinstance(model, dict) else None
        if isinstance(name, str) and "embed" not in name:
            yield name


def host_of(base_url: str) -> str:
    """Host and port; other parts of the address may be secret."""
    parts = _split(base_url)
    if parts is None or not parts.hostname:
        return "an unreadable address"
    return parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"


def address_problem(base_url: str, *, allow_http: bool = False) -> str | None:
    """Why models at this address cannot be used; None when they can. `allow_http`: http is accepted on other machines
    too."""
    if not base_url:
        return "every user of its provider has an address of their own: name it as base_url in [models.ALIAS]"
    parts = _split(base_url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return f"its base_url {base_url!r} is not an address; write https://host/path"
    if parts.username or parts.password:
        return "its base_url holds a user name or password; name the variable of the key in api_key_env instead"
    if (parts.query and not _API_VERSION.fullmatch(parts.query)) or parts.fragment:
        return "its base_url must end with the path, without # and, but for ?api-version=…, without ?"
    if parts.scheme == "http" and not allow_http and not is_loopback(parts.hostname):
        return (
            f"its base_url is http and {parts.hostname} is not this machine; use https, or write allow_http = true "
            "into its table [models.…] of your own mcc.toml"
        )
    return None


def _split(base_url: str) -> SplitResult | None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return None
    return parts


SECONDS = 30.0
MOST_BYTES = 16_384
_SAID_CHARACTERS = 300
_POLL_SECONDS = 0.05
_PIPE_SECONDS = 0.5
"""Time limit for reading the rest of the pipes after the command has ended."""


def _looks_like_a_key(said: str) -> bool:
    """Keys and tokens have neither blanks nor angle brackets; error messages and HTML pages do."""
    return said.isascii() and said.isprintable() and not any(mark in said for mark in " <>")


class KeyCommand:
    """The key that the command `argv` prints on one line, cached for `key_seconds` (None: until the provider refuses
    it).

    The command runs without a shell, in the root directory, within `SECONDS` and `MOST_BYTES`. `learn` receives each
    key before it is used, so that it can be redacted from texts.
    """

    def __init__(
        self,
        argv: Sequence[str],
        learn: Callable[[str], None],
        *,
        key_seconds: float | None = None,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._argv = (str(Path(argv[0]).expanduser()), *argv[1:])
        self._learn = learn
        self._key_seconds = key_seconds
        self._seconds = seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._key, self._until = "", 0.0

    async def key(self) -> str:
        """The current key. Raises `ModelError`."""
        async with self._lock:
            if not self._key or self._clock() >= self._until:
                key = await self._run()
                self._learn(key)
                self._key = key
                self._until = float("inf") if self._key_seconds is None else self._clock() + self._key_seconds
            return self._key

    def refused(self, key: str) -> None:
        """Drop this key, which the provider no longer accepts; the next call of `key` runs the command again."""
        if key == self._key:
            self._key = ""

    async def _run(self) -> str:
        try:
            with PROCESSORS.all_available():
                process = await asyncio.create_subprocess_exec(
                    *self._argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            raise ModelError(f"{self._name} cannot be run: {why_not_run(self._argv[0], error)}.") from error
        try:
            async with asyncio.timeout(self._seconds):
                out, errors = await _read(process)
                status = process.returncode if process.returncode is not None else await process.wait()
        except TimeoutError as late:
            raise BadReply(f"{self._name} printed no key within {self._seconds:g} seconds.") from late
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]  # its pipes may be open still; no public name closes
        if status != 0:
            said = errors.decode("utf-8", "replace").strip().rpartition("\n")[2][:_SAID_CHARACTERS]
            raise BadReply(f"{self._name} ended with status {status}{f': {said}' if said else ''}.")
        return self._one_line(out)

    def _one_line(self, out: bytes) -> str:
        """The key in the output. Errors never quote the output, since it may still be a key."""
        key = out.decode("ascii", "replace").strip()
        if not key or len(out) > MOST_BYTES or not _looks_like_a_key(key):
            raise ModelError(f"{self._name} did not print a key and nothing else, on one line.")
        return key

    @property
    def _name(self) -> str:
        return f"The key_command {os.path.basename(self._argv[0])}"


async def _read(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Read both streams until the command has ended, keeping a little more than `MOST_BYTES` of each.

    The pipes may stay open: a background process that the command leaves running, such as a key agent, inherits them.
    """
    assert process.stdout is not None and process.stderr is not None
    out, errors = bytearray(), bytearray()
    reading = [
        asyncio.create_task(_keep(process.stdout, out)),
        asyncio.create_task(_keep(process.stderr, errors)),
    ]
    try:
        left: set[asyncio.Task[None]] = set(reading)
        while left and process.returncode is None:  # `wait` would wait for the pipes as well
            _, left = await asyncio.wait(left, timeout=_POLL_SECONDS)
        if left:
            await asyncio.wait(left, timeout=_PIPE_SECONDS)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
    return bytes(out), bytes(errors)


async def _keep(stream: asyncio.StreamReader, kept: bytearray) -> None:
    while piece := await stream.read(MOST_BYTES):
        kept += piece
        del kept[MOST_BYTES + 1 :]


def why_not_run(program: str, error: OSError) -> str:
    """The reason as a phrase. An unreadable directory on PATH makes a missing program look forbidden to the system."""
    if os.sep not in program and shutil.which(program) is None:
        return "No such file on the PATH"
    return str(error.strerror)
