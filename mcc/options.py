"""What an order is given on a command line, of `mcc` and of `drone`: options with what their help says, and the fields
of the order that they make."""

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

FILE_BYTES = 1_000_000
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """How the models of an order are asked, and what its agents may do and spend."""

    model: Annotated[str | None, typer.Option(help="Alias or provider/model.")] = None
    thinking: Annotated[
        str | None, typer.Option(help="How much the model thinks: off, minimal, low, medium, high, xhigh or max.")
    ] = None
    temperature: Annotated[float | None, typer.Option(help="Temperature of the model's replies, 0 to 2.")] = None
    max_output_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply.")] = None
    service_tier: Annotated[str | None, typer.Option(help="How the provider ranks the request, in its word.")] = None
    limit: Annotated[list[str] | None, typer.Option(help="key=value, for example rounds=10; may be repeated.")] = None
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="develop (as if left out), plan (read only), build, test or ship."),
    ] = None
    permission: Annotated[
        str | None,
        typer.Option(metavar="FILE|JSON", help="What its agents may do, by tool or group: allow, ask, deny, rules."),
    ] = None
    on_ask: Annotated[
        str | None,
        typer.Option(
            metavar="wait|deny",
            help="What becomes of a call that you are to be asked for; if left out, wait where you can be.",
        ),
    ] = None
    egress: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Of the hosts that the operator allows, leave it only this one: name or name:port, none for no host;"
            " may be repeated.",
        ),
    ] = None

    def order(self) -> dict[str, Any]:
        """The fields of an order, None for what was not said. Raises ValueError with a sentence."""
        from mcc.definitions.agents import limits_of

        return {
            "model": self.model,
            "thinking": self.thinking,
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "service_tier": self.service_tier,
            "limits": limits_of(self.limit) if self.limit else None,
            "mode": self.mode,
            "permission": permission_in(self.permission),
            "on_ask": self.on_ask,
            "egress": names_in(self.egress),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Who judges the answer."""

    verify_rubric: Annotated[str | None, typer.Option(help="Judge the answer by this before it counts.")] = None
    verify_agent: Annotated[str | None, typer.Option(help="Let this agent judge the answer before it counts.")] = None
    max_revisions: Annotated[int | None, typer.Option(help="Send it back so often at most (1).", min=0, max=2)] = None

    def order(self) -> dict[str, Any]:
        """The same as of `OrderOptions`."""
        said = {"rubric": self.verify_rubric, "agent": self.verify_agent, "max_revisions": self.max_revisions}
        return {"verify": {name: value for name, value in said.items() if value is not None} or None}


def taking_options(work: Callable[..., None]) -> Callable[..., None]:
    """The same as a command: where it takes a dataclass of options, each field of that is an option."""
    taken = tuple(signature(work).parameters.values())

    def command(**given: Any) -> None:
        work(**gathered(taken, given))

    return with_parameters(command, work, [option for one in taken for option in spread(one)])


def gathered(taken: Iterable[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for these parameters, out of what was given for the options that they are spread to; of those that
    were not given, the defaults."""
    found: dict[str, Any] = {}
    for one in taken:
        group: Any = one.annotation
        own = {option.name: given.get(option.name, option.default) for option in spread(one)}
        found[one.name] = group(**own) if is_dataclass(one.annotation) else own[one.name]
    return found


def spread(taken: Parameter) -> Iterator[Parameter]:
    """The options that a parameter stands for: one, or where it takes a dataclass the fields of that."""
    if not is_dataclass(taken.annotation):
        yield taken.replace(kind=Parameter.KEYWORD_ONLY)
        return
    for field in fields(taken.annotation):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)


def with_parameters(
    command: Callable[..., None], work: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """`command` with the name and help of `work`, and these options."""
    update_wrapper(command, work)
    # Typer reads the options of a command from these two.
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def names_in(said: Sequence[str] | None) -> list[str] | None:
    """The only ones that are meant; "none" for no one at all, None for all."""
    return [name for name in said if name != NONE] if said else None


def permission_in(said: str | None) -> dict[str, Any] | None:
    """Permission as JSON, written out or in a file; in a file whose name ends with .toml, all of it or the table
    [permission]. Raises ValueError with a sentence."""
    if said is None or said.lstrip().startswith("{") or not said.endswith(".toml"):
        return object_in(said, "--permission")
    text = _file(Path(said), "--permission")
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{said} is not TOML: {problem}.") from None
    table = found.get("permission", found)
    if not isinstance(table, dict):
        raise ValueError(f"{said}: [permission] must be a table.")
    return table


def object_in(said: str | None, option: str) -> dict[str, Any] | None:
    """A JSON object, written out or in a file. Raises ValueError with a sentence."""
    if said is None:
        return None
    text, where = (said, option) if said.lstrip().startswith("{") else (_file(Path(said), option), said)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{where} is not JSON: {problem}.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not a JSON object, in braces, as {option} needs it.")
    return found


def _file(path: Path, option: str) -> str:
    try:
        with path.expanduser().open("rb") as stream:
            content = stream.read(FILE_BYTES + 1)
    except OSError as problem:
        said = f"{option}: {path} cannot be read ({problem.strerror}); name a file, or write it out."
        raise ValueError(said) from None
    if len(content) > FILE_BYTES:
        raise ValueError(f"{option}: {path} has more than {FILE_BYTES:,} bytes.")
    return content.decode("utf-8", "replace")
