"""The options of `mcc run`, each with what its help says."""

from typing import Annotated

import typer

Prompt = Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")]
Workspace = Annotated[
    str | None,
    typer.Option(metavar="DIRECTORY|https://…", help="Directory or git address; the current directory if left out."),
]
Ref = Annotated[str | None, typer.Option(help="Branch, tag or commit of a git address.")]
Agent = Annotated[str, typer.Option(help="Agent to ask.")]
Model = Annotated[str | None, typer.Option(help="Alias or provider/model.")]
Thinking = Annotated[
    str | None, typer.Option(help="How much the model thinks: off, minimal, low, medium, high, xhigh or max.")
]
Temperature = Annotated[float | None, typer.Option(help="Temperature of the model's replies, 0 to 2.")]
MaxOutputTokens = Annotated[int | None, typer.Option(help="Most tokens of one reply.")]
ServiceTier = Annotated[str | None, typer.Option(help="How the provider ranks the request, in its word.")]
InSession = Annotated[str | None, typer.Option(help="Session to go on with, by its id.")]
GoOn = Annotated[bool, typer.Option("--continue", help="Go on with the last session of this workspace.")]
Limit = Annotated[list[str] | None, typer.Option(help="key=value, for example rounds=10; may be repeated.")]
Label = Annotated[list[str] | None, typer.Option(help="A label to find it by; may be repeated.")]
Metadata = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="For its tools and for programs; may be repeated.")
]
Control = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="Take only these while it runs: pause, resume, steer, set_metadata, cancel (of one agent) or none;"
        " may be repeated.",
    ),
]
Queue = Annotated[str, typer.Option(help="Queue of the drones that shall do it.")]
Schema = Annotated[str | None, typer.Option(metavar="FILE|JSON", help="JSON Schema that the result must fit.")]
Rule = Annotated[
    list[str] | None, typer.Option(metavar="CEL", help="A rule that the result must keep; may be repeated.")
]
VerifyRubric = Annotated[str | None, typer.Option(help="Judge the answer by this before it counts.")]
VerifyAgent = Annotated[str | None, typer.Option(help="Let this agent judge the answer before it counts.")]
MaxRevisions = Annotated[int | None, typer.Option(help="Send it back so often at most (1).", min=0, max=2)]
Mode = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="develop (as if left out), plan (read only), build, test or ship."),
]
OnAsk = Annotated[
    str | None,
    typer.Option(metavar="wait|deny", help="What becomes of a call that you are to be asked for; deny with --detach."),
]
Permission = Annotated[
    str | None,
    typer.Option(metavar="FILE|JSON", help="What its agents may do, by tool or group: allow, ask, deny, rules."),
]
NotBefore = Annotated[
    str | None, typer.Option(metavar="TIME", help="Begin no sooner: 10m, 1h30m, 2d, or a time in ISO 8601.")
]
IdempotencyKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="The same key and order again place no second order.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Print the order's id and go.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the answer alone, or why none.")]
JsonLines = Annotated[
    str | None,
    typer.Option("--json", metavar="[=final]", help="For machines: JSON lines on stdout, or the last one alone."),
]
