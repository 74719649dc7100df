"""The command `mcc init`: writes the user's own mcc.toml with one model, after that model has answered."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from mcc.cli.command import FAILED, USAGE, AsJson, fail, print_json, print_wrapped, say
from mcc.configuration.file import NAME, NAMED_BY
from mcc.configuration.places import config_home, make_private_directory
from mcc.configuration.providers import NAMES, PROVIDERS, Provider
from mcc.contracts.similar import did_you_mean

ALIAS = "main"
"""The name of the model in the file."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    provider: Provider
    model: str
    key_variable: str
    """Name of the environment variable with the key; empty where the server wants none."""
    base_url: str
    """Empty: the provider's own address."""

    @property
    def toml(self) -> str:
        lines = [
            "# Written by mcc init. Keys stay in the environment, and only their names stand here.",
            f"[models.{ALIAS}]",
            f"provider = {_quoted(self.provider.name)}",
            *([f"base_url = {_quoted(self.base_url)}"] if self.base_url else []),
            f"model = {_quoted(self.model)}",
            *([f"api_key_env = {_quoted(self.key_variable)}"] if self.key_variable else []),
            "",
            "[defaults]",
            f"model = {_quoted(ALIAS)}",
        ]
        return "\n".join(lines) + "\n"


def init(
    provider: Annotated[str | None, typer.Option(help="Whose model: its name, as mcc init lists them.")] = None,
    model: Annotated[str | None, typer.Option(help="The name that the provider knows.")] = None,
    key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="The variable that holds its key; '' where it wants none.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a server of your own.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take what is found.")] = False,
    as_json: AsJson = False,
    check: Annotated[bool, typer.Option(help="Try the model in one small call before anything is written.")] = True,
) -> None:
    """Choose a model, try it, and write your own mcc.toml. An existing one is left alone.

    A key is never written: it stays in an environment variable, whose name the file has.

    Example: mcc init --model gpt-large --key-env MY_KEY
    """
    file = _place(os.environ)
    asks = not yes and sys.stdin.isatty()
    if not asks and not yes:
        fail("There is no terminal to ask at: say --provider, --model and --key-env, and --yes.", USAGE)
    chosen = _chosen(provider, model, key_env, base_url, asks=asks)
    if check and not _answers(chosen) and not (asks and typer.confirm("Write it all the same?", default=False)):
        fail("Nothing was written. Mend what it says and try again, or add --no-check.", FAILED)
    _write(file, chosen.toml)
    say(f"Written: {file}. It counts from the next start: mcc down; mcc up --detach")
    if as_json:
        print_json({"path": str(file), "model": asdict(chosen) | {"provider": chosen.provider.name}}, indented=True)
    else:
        print(chosen.toml, end="")


def _place(environ: Mapping[str, str]) -> Path:
    """Where the file is to be. Ends the command where there is one already."""
    named = environ.get(NAMED_BY)
    file = Path(named).expanduser() if named else config_home(environ) / NAME
    if os.path.lexists(file):
        fail(f"{file} is there already and stays as it is: add a model to it (docs/how-to/use-a-real-model.md).", USAGE)
    return file


def _chosen(
    provider: str | None, model: str | None, key_env: str | None, base_url: str | None, *, asks: bool
) -> ChosenModel:
    """From the options; what they leave out is asked for, or found."""
    who = _provider(provider, asks=asks)
    own_server = not who.key_name or base_url is not None
    if base_url is None and asks and own_server:
        base_url = typer.prompt("Address of the server", default=who.base_url or None, type=str)
    if not (base_url or who.base_url):
        fail(f"Each user of {who.name} has an address of their own: name it with --base-url.", USAGE)
    if key_env is None:
        found = next((name for name in who.key_names if os.environ.get(name)), who.key_name)
        key_env = typer.prompt("Variable with its key ('' for none)", default=found) if asks else found
    if key_env and not (key_env.isidentifier() and key_env.isascii()):
        # Not repeated in the message: it may be the key itself.
        fail("--key-env is the name of an environment variable, not the key itself.", USAGE)
    if key_env and not os.environ.get(key_env):
        fail(f"{key_env} is not set: export it first (export {key_env}=…), then call mcc init again.", USAGE)
    if model is None:
        model = typer.prompt("Model", default=who.first_model or None, type=str) if asks else who.first_model
    if not model:
        fail(f"Which of the models of {who.name}? Name it with --model.", USAGE)
    address = base_url or ""
    return ChosenModel(who, model, key_env, "" if address.rstrip("/") == who.base_url else address)


def _provider(name: str | None, *, asks: bool) -> Provider:
    with_key = [one.name for one in PROVIDERS if any(os.environ.get(key) for key in one.key_names)]
    if name is None:
        if not (asks or with_key):
            keys = ", ".join(one.key_name for one in PROVIDERS[:4])
            fail(f"No key of a provider is set ({keys} …): export one, or say --provider.", USAGE)
        if asks:
            print_wrapped(f"Providers: {', '.join(NAMES)}.")
            print_wrapped(f"Keys are set for: {', '.join(with_key) or 'none of them'}.")
            name = typer.prompt("Provider", default=with_key[0] if with_key else None, type=str)
        else:
            name = with_key[0]
    chosen = next((one for one in PROVIDERS if one.name == name), None)
    if chosen is None:
        fail(f"There is no provider {name!r}{did_you_mean(str(name), NAMES)}. There are {', '.join(NAMES)}.", USAGE)
    return chosen


def _answers(chosen: ChosenModel) -> bool:
    """Whether the model answers one small call; a drone's program asks it and prints what it found."""
    say("The model is asked once; that may take a minute.")
    with tempfile.TemporaryDirectory(prefix="mcc-init-") as directory:
        file = Path(directory) / NAME
        file.write_text(chosen.toml, "utf-8")
        command = [sys.executable, "-P", "-m", "drone.cli", "models", "--check", ALIAS]
        done = subprocess.run(command, env={**os.environ, NAMED_BY: str(file)}, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def _write(file: Path, content: str) -> None:
    """Never over a file that came to be there meanwhile."""
    try:
        make_private_directory(file.parent)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(content)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror or error}.", FAILED)


def _quoted(text: str) -> str:
    """As a string of TOML, which takes every escape of JSON that this makes."""
    return json.dumps(text)
