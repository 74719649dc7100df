"""Command-line options of an order, shared by `mcc` and `drone`: their help, and the order's fields they set."""

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
EXAMPLES = {"--permission": '{"run_shell": "ask"}', "--schema": '{"type": "object"}'}
"""JSON that somebody may have meant who wrote something else, by option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Options for an order's models, and for what its agents may do and spend."""

    model: Annotated[str | None, typer.Option(help="Alias or provider/model.")] = None
    thinking: Annotated[
        str | None, typer.Option(help="How much the model thinks: off, minimal, low, medium, high, xhigh or max.")
    ] = None
    temperature: Annotated[float | None, typer.Option(help="Temperature of the model's replies, 0 to 2.")] = None
    max_output_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply.")] = None
    service_tier: Annotated[str | None, typer.Option(help="The provider's name for how it ranks the request.")] = None
    limit: Annotated[list[str] | None, typer.Option(help="key=value, for example rounds=10; may be repeated.")] = None
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="develop (the default), plan (read only), build, test or ship."),
    ] = None
    permission: Annotated[
        str | None,
        typer.Option(metavar="FILE|JSON", help="What its agents may do, by tool or group: allow, ask, deny, rules."),
    ] = None
    on_ask: Annotated[
        str | None,
        typer.Option(
            metavar="wait|deny",
            help="What becomes of a call that needs your approval; if left out, wait where you can be asked.",
        ),
    ] = None
    egress: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Of the hosts that the operator allows, allow only this one: name or name:port, none for no host;"
            " may be repeated.",
        ),
    ] = None

    def order(self) -> dict[str, Any]:
        """The fields of an order, None for options left out. Raises ValueError with a sentence."""
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
        """The fields of an order, None for options left out."""
        values = {"rubric": self.verify_rubric, "agent": self.verify_agent, "max_revisions": self.max_revisions}
        return {"verify": {name: value for name, value in values.items() if value is not None} or None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """How work on a git address goes back there."""

    pull_request: Annotated[
        bool, typer.Option("--pull-request", help="Also open a request to merge it, or update the one that is there.")
    ] = False
    base: Annotated[str | None, typer.Option(help="The branch that it is to be merged into.")] = None
    branch: Annotated[str | None, typer.Option(help="The branch to push; the session's own if left out.")] = None
    title: Annotated[str | None, typer.Option(help="Title of the request.")] = None
    draft: Annotated[bool | None, typer.Option("--draft/--ready", help="Open the request as a draft, or not.")] = None
    close: Annotated[int | None, typer.Option(help="Number of the issue that ends with the merge.")] = None

    @property
    def wish(self) -> dict[str, Any]:
        """The fields of `Deliver` that are given."""
        given = {
            "pull_request": self.pull_request or None,
            "base": self.base,
            "branch": self.branch,
            "title": self.title,
            "draft": self.draft,
            "close": self.close,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverOptions(DeliveryOptions):
    """Whether, and how, an order's work on a git address goes back there once its result is accepted."""

    push: Annotated[
        bool, typer.Option("--push", help="On a git address: push its branch when the result is accepted.")
    ] = False

    def order(self) -> dict[str, Any]:
        """The field of an order, None where nothing is to be delivered. Raises ValueError with a sentence."""
        wish, of_request = self.wish, {"draft", "close"}
        if wish and not (self.push or self.pull_request):
            raise ValueError(f"--{next(iter(wish))} says how work is delivered: say --push or --pull-request as well.")
        if not self.pull_request and (lost := next(iter(of_request & wish.keys()), None)):
            raise ValueError(f"--{lost} is for the request that is opened: say --pull-request as well.")
        return {"deliver": {"push": True, **wish} if self.push or wish else None}


def taking_options(work: Callable[..., None]) -> Callable[..., None]:
    """Make `work` a Typer command in which each field of a dataclass parameter is an option of its own."""
    parameters = tuple(signature(work).parameters.values())

    def command(**values: Any) -> None:
        work(**arguments_from(parameters, values))

    return with_parameters(command, work, [option for one in parameters for option in options_of(one)])


def arguments_from(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for `parameters`, from the values of their options (see `options_of`), or the options' defaults."""
    arguments: dict[str, Any] = {}
    for one in parameters:
        group: Any = one.annotation
        own = {option.name: values.get(option.name, option.default) for option in options_of(one)}
        arguments[one.name] = group(**own) if is_dataclass(one.annotation) else own[one.name]
    return arguments


def options_of(parameter: Parameter) -> Iterator[Parameter]:
    """The options for a parameter: itself, or where it is a dataclass, one for each field."""
    if not is_dataclass(parameter.annotation):
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
        return
    for field in fields(parameter.annotation):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)


def with_parameters(
    command: Callable[..., None], work: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """`command` with the name and help of `work`, and these options."""
    update_wrapper(command, work)
    # Typer reads the options of a command from these two.
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def names_in(values: Sequence[str] | None) -> list[str] | None:
    """The names in the values of a repeated option, an empty list for "none"; None (= all) where it is left out."""
    return [name for name in values if name != NONE] if values else None


def permission_in(value: str | None) -> dict[str, Any] | None:
    """Permission from JSON text, a JSON file, or a TOML file (name ends with .toml): there the table [permission], else
    the whole file. Raises ValueError with a sentence."""
    if value is None or value.lstrip().startswith("{") or not value.endswith(".toml"):
        return object_in(value, "--permission")
    text = _file(Path(value), "--permission")
    try:
        parsed = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{value} is not TOML: {problem}.") from None
    table = parsed.get("permission", parsed)
    if not isinstance(table, dict):
        raise ValueError(f"{value}: [permission] must be a table.")
    return table


def object_in(value: str | None, option: str) -> dict[str, Any] | None:
    """A JSON object from text that begins with a brace, else from the file of that name. Raises ValueError with a
    sentence, which names `option`."""
    if value is None:
        return None
    text, where = (value, option) if value.lstrip().startswith("{") else (_file(Path(value), option), value)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{where} is not JSON: {problem}.") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"{where} is not a JSON object, in braces, as {option} needs it.")
    return parsed


def _file(path: Path, option: str) -> str:
    try:
        with path.expanduser().open("rb") as stream:
            content = stream.read(FILE_BYTES + 1)
    except OSError as problem:
        example = EXAMPLES.get(option, '{"key": "value"}')
        raise ValueError(
            f"{option}: {path} cannot be read ({problem.strerror}); name a file, or write JSON, such as '{example}'."
        ) from None
    if len(content) > FILE_BYTES:
        raise ValueError(f"{option}: {path} has more than {FILE_BYTES:,} bytes.")
    return content.decode("utf-8", "replace")
