"""Findings about this machine: data directory, configuration, disk, cores, sandbox, git, search, keys and prices."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcc.configuration.places import NotPrivate, refuse_others
from mcc.configuration.providers import KEY_NAMES, WITHOUT_NETWORK, address_variable, refusal
from mcc.configuration.workspaces import KEPT_CHECKOUTS, KeptCheckouts
from mcc.contracts.drones import AS_ROOT, AS_ROOT_ADVICE, OFF, SandboxState, Walls
from mcc.doctor.installation import Installation
from mcc.findings.finding import Finding, State
from mcc.local.programs import drones_for
from mcc.resources import cores_here, existing
from mcc.view import figures

CHECK_SECONDS = 20.0
LITTLE_BYTES, TOO_LITTLE_BYTES = 1_000_000_000, 100_000_000
GIT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs in the sandbox of a drone are found."""
OFF_ADVICE = "install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap) and allow user namespaces"
CGROUP_WALLS = ("memory", "processes", "cpu")
CGROUPS_ADVICE = "delegate cgroups to the drone (docs/how-to/limit-programs.md)"
WALL_ADVICE = "docs/security.md says what this wall stops; keep shell tools from agents that read strangers' text"


def check_data_dir(installation: Installation) -> Iterable[Finding]:
    directory = installation.settings.data_dir
    if not directory.exists():
        return [Finding("data dir", "ok", f"{directory} is not there yet; mcc up makes it")]
    if not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
        return [
            Finding(
                "data dir", "broken", f"{directory} cannot be written", "correct its permissions, or set MCC_DATA_DIR"
            )
        ]
    try:
        refuse_others(directory.stat(), directory)
    except NotPrivate as problem:
        detail = f"no client trusts the description of a service there: {problem}"
        return [Finding("data dir", "warning", detail, f"chmod 700 {directory}, or set MCC_DATA_DIR")]
    readable = [name for name in ("token", "family.json", "flower.auth", "mcc.db") if others_may_read(directory / name)]
    if readable and others_may_read(directory, stat.S_IXGRP | stat.S_IXOTH):
        detail = f"others on this machine can read {', '.join(readable)} in {directory}"
        return [Finding("data dir", "warning", detail, f"chmod 700 {directory}")]
    return [Finding("data dir", "ok", f"{directory} can be written, and its secrets are yours alone")]


def check_configuration(installation: Installation) -> Iterable[Finding]:
    """Whether drones can use the configuration; the service itself reads only parts of it."""
    try:
        tried = _run_drone(installation, "check")
    except subprocess.TimeoutExpired:
        return [Finding("config", "warning", f"checking it took longer than {CHECK_SECONDS:g} s", "try once more")]
    if tried.returncode:
        return [Finding("config", "broken", tried.stderr.strip() or "drones cannot read it", "correct it")]
    files = installation.settings.configuration
    counts = " and, over it, ".join(str(file) for file in (files.own, files.trusted) if file)
    return [Finding("config", "ok", counts or "there is no mcc.toml, so defaults count")]


def _run_drone(installation: Installation, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `drone` in a process of its own: `mcc` does not import `drone`."""
    return subprocess.run(
        # `-P`: a directory `drone` where the command was typed must not be imported in its place.
        [sys.executable, "-P", "-m", "drone.cli", command],
        env=dict(installation.environment),
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
    )


def check_disk(installation: Installation) -> Iterable[Finding]:
    """Free space on the disk of the data directory, and on that of an SQLite file if it is another one."""
    wanted = [installation.settings.data_dir]
    if (file := database_file(installation.settings.database_url)) is not None:
        wanted.append(file.parent)
    # Reversed twice, so that of two places on one disk the data directory is named.
    disks = {place.stat().st_dev: place for place in map(existing, reversed(wanted))}
    reserve = round(installation.settings.disk_reserve_mb * 1_000_000)
    return [_space(place, shutil.disk_usage(place).free, reserve) for place in reversed(disks.values())]


def check_cores(_: Installation) -> Iterable[Finding]:
    """How many cores there are, and how many drones use them."""
    cores = cores_here()
    return [Finding("cores", "ok", f"{cores:g} for processes here; mcc up --drones auto starts {drones_for(cores)}")]


def check_checkouts(installation: Installation) -> Iterable[Finding]:
    """Old checkouts of git addresses that were not deleted, because they hold what is nowhere else."""
    try:
        content = (installation.settings.data_dir / KEPT_CHECKOUTS).read_bytes()
        kept = KeptCheckouts.model_validate_json(content).kept
    except FileNotFoundError:
        yield Finding("checkouts", "ok", "no checkout of a git address was kept because of what only it has")
        return
    except (OSError, ValueError) as problem:
        yield Finding("checkouts", "warning", f"what drones keep cannot be read: {problem}", "look at its permissions")
        return
    for checkout in kept:
        detail = (
            f"{checkout.place} ({figures.bytes_(checkout.bytes_)}, {checkout.address}) is old and stays: {checkout.why}"
        )
        yield Finding("checkouts", "warning", detail, "push or copy what is wanted of it, then delete the directory")


def database_file(url: str) -> Path | None:
    """The file of an SQLite database; None for another database."""
    path = url.partition("?")[0].removeprefix("sqlite:///")
    return Path(path) if path != url.partition("?")[0] else None


def _space(place: Path, free: int, reserve: int) -> Finding:
    state: State = "ok"
    advice = ""
    if free < reserve:
        state, advice = "broken", "make room: no order is taken, and those that run wait, until there is more than that"
        return Finding("disk", state, f"{figures.bytes_(free)} free under {place}, less than the reserve", advice)
    if free < TOO_LITTLE_BYTES:
        state, advice = "broken", "make room: journals cannot be written without it"
    elif free < LITTLE_BYTES:
        state, advice = "warning", "make room soon"
    return Finding("disk", state, f"{figures.bytes_(free)} free under {place}", advice)


def check_sandbox(installation: Installation) -> Iterator[Finding]:
    """Which parts of the sandbox for tools' programs work, as found by a drone started here."""
    try:
        state = SandboxState.model_validate_json(_run_drone(installation, "walls").stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        yield Finding("sandbox", "warning", "it could not be tried", "look at what config says, and try once more")
        return
    yield from sandbox_findings(state)


def sandbox_findings(state: SandboxState) -> Iterator[Finding]:
    """Findings about this state of a sandbox."""
    if state.as_root:
        yield Finding("sandbox", "warning", AS_ROOT, AS_ROOT_ADVICE)
    missing = state.walls.missing
    if state.kind == OFF:
        detail = f"{next(iter(missing.values()), 'there is none')}: tools that run commands are off"
        yield Finding("sandbox", "warning", detail, OFF_ADVICE)
        return
    standing = [name for name in Walls.model_fields if name not in missing]
    yield Finding("sandbox", "ok", f"{state.kind}: {', '.join(standing)} stand")
    # Without delegated cgroups everything works and limits of each process count: most machines are like that.
    limits = {wall: why for wall, why in missing.items() if wall in CGROUP_WALLS}
    for why in dict.fromkeys(limits.values()):
        walls = ", ".join(wall for wall in limits if limits[wall] == why)
        yield Finding("sandbox", "ok", f"no limit of a whole call for {walls}: {why}; to have one, {CGROUPS_ADVICE}")
    for wall, why in missing.items():
        if wall not in limits:
            yield Finding("sandbox", "warning", f"{wall} is missing: {why}", WALL_ADVICE)


def check_git(installation: Installation, path: str = GIT_PATH) -> Iterable[Finding]:
    if program := shutil.which("git", path=path):
        return [Finding("git", "ok", f"{program} is there for the git tools, which run it in the sandbox")]
    advice = "install it (Debian and Ubuntu: apt-get install git)"
    return [Finding("git", "warning", f"git is not installed in {path}: the git tools are off", advice)]


def check_search(installation: Installation) -> Iterable[Finding]:
    if program := shutil.which("rg"):
        return [Finding("search", "ok", f"{program} searches")]
    advice = "install ripgrep (Debian and Ubuntu: apt-get install ripgrep)"
    return [
        Finding("search", "warning", "ripgrep is not installed: Python searches, with the same results, slower", advice)
    ]


def check_keys(installation: Installation) -> Iterator[Finding]:
    """Missing keys of providers, and keys that a model's address must not get. Of a key's value only the presence is
    checked."""
    models, environment = _models(installation), installation.environment
    wanted = {name: str(model["api_key_env"]) for name, model in models.items() if model.get("api_key_env")}
    missing = {key: _models_named(name for name, its in wanted.items() if its == key) for key in wanted.values()}
    # Drones may run elsewhere, with keys that this environment lacks: a model that one registered without a problem has
    # its own.
    at_work = installation.models_at_work() if any(not environment.get(key) for key in missing) else frozenset[str]()
    for key, named in missing.items():
        if environment.get(key):
            continue
        if at_work.issuperset(name for name, its in wanted.items() if its == key):
            yield Finding("keys", "ok", f"{key} is set where drones run, which is needed by {named}")
        else:
            detail = f"{key} is not set, which is needed by {named}"
            yield Finding("keys", "warning", detail, f"set {key} where the drone runs")
    for name, key in wanted.items():
        address = str(models[name].get("base_url", ""))
        beside = environment.get(address_variable(key))
        refused = not models[name].get("send_key_to_other_host") and address and refusal(key, address, beside)
        if refused and environment.get(key):
            yield Finding("keys", "warning", f"model {name} cannot be used: {refused}", "")
    keys_set = [key for key in dict.fromkeys((*KEY_NAMES, *wanted.values())) if environment.get(key)]
    if keys_set:
        yield Finding("keys", "ok", f"set here: {', '.join(keys_set)}")
    elif not models:
        detail = (
            f"none of {', '.join(KEY_NAMES)} is set: a local Ollama is used when there is one, else the offline model"
        )
        yield Finding("keys", "ok", detail)


def check_prices(installation: Installation) -> Iterator[Finding]:
    """Configured models whose price is unknown."""
    listed = find_spec("genai_prices") is not None
    unknown = [name for name, model in _models(installation).items() if not _has_price(model, listed)]
    if unknown:
        advice = (
            f"write [models.{unknown[0]}.price] with input and output, in dollars per million tokens, into mcc.toml"
        )
        detail = f"no price is known of {_models_named(unknown)}: what it costs is shown as unknown"
        yield Finding("prices", "warning", detail, advice)
    else:
        source = "the list of genai-prices" if listed else "mcc.toml alone (the extra `cost` adds a list)"
        yield Finding("prices", "ok", f"every configured model has one; prices come from {source}")


def _models_named(names: Iterable[str]) -> str:
    several = list(names)
    return f"model{'s' if len(several) > 1 else ''} {', '.join(several)}"


def _has_price(model: Mapping[str, Any], listed: bool) -> bool:
    """Whether drones know a price of the model; the list of genai-prices counts only for a provider's own address."""
    return (
        bool(model.get("price")) or model.get("provider") in WITHOUT_NETWORK or (listed and not model.get("base_url"))
    )


def _models(installation: Installation) -> Mapping[str, Mapping[str, Any]]:
    models = installation.settings.configuration.table("models")
    return {name: model for name, model in models.items() if isinstance(model, dict)}


def others_may_read(path: Path, bits: int = stat.S_IRGRP | stat.S_IROTH) -> bool:
    return path.exists() and bool(path.stat().st_mode & bits)
