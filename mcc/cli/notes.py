"""The commands `mcc notes`: notes that agents keep for later orders."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_table, say
from mcc.cli.server import ServiceCall, list_by_default, service_command
from mcc.view.output import brief

if TYPE_CHECKING:
    from mcc.contracts.notes import Note

app = typer.Typer(help="What agents wrote down for later orders: memory, plans, tasks.", rich_markup_mode=None)

Kind = Annotated[Literal["memory", "plan", "task"], typer.Option(help="Which kind of note.")]
AnyKind = Annotated[Literal["memory", "plan", "task"] | None, typer.Option(help="Only notes of this kind.")]
Name = Annotated[str, typer.Argument(help="The note's name; a task's number.")]
Project = Annotated[
    str | None, typer.Option(help="Its project, or the beginning of it, where several have such a note.")
]


@service_command(app, "list")
def list_notes(call: ServiceCall, kind: AnyKind = None, project: Project = None) -> None:
    """Notes of all projects, newest first; at most 200.

    Example: mcc notes list --kind memory
    """
    notes = [note for note in call.client.notes.list(kind=kind) if note.project.startswith(project or "")]
    if call.printed({"items": notes}):
        return
    rows = [
        (
            note.kind,
            note.name,
            note.title or brief(note.text, 120),
            note.agent,
            clock(note.verified_at),
            note.workspace or "(session)",
            note.project[:12],
        )
        for note in notes
    ]
    print_table(("KIND", "NAME", "SAYS", "BY", "VERIFIED", "WORKSPACE", "PROJECT"), rows, empty="No notes yet.")


list_by_default(app, list_notes)


@service_command(app)
def show(call: ServiceCall, name: Name, kind: Kind = "memory", project: Project = None) -> None:
    """One note with all its versions: who wrote which, from which entry of which order.

    Example: mcc notes show build
    """
    note = _find_note(call.client.notes.list(kind=kind), name, project)
    versions = call.client.notes.history(note.project, note.kind, note.name)
    if call.printed({"items": versions}):
        return
    rows = [
        (
            version.version,
            clock(version.written_at),
            version.agent or version.principal,
            version.order_id and listed_id(version.order_id),
            version.seq,
            version.status,
        )
        for version in versions
    ]
    print_table(("VERSION", "WRITTEN", "BY", "ORDER", "ENTRY", "STATUS"), rows, empty="")
    say(f"\n{note.title}\n{note.text}".strip())


@service_command(app)
def delete(call: ServiceCall, name: Name, kind: Kind = "memory", project: Project = None) -> None:
    """Take a note away, so that no agent reads it any more.

    Example: mcc notes delete build
    """
    note = _find_note(call.client.notes.list(kind=kind), name, project)
    deleted = call.client.notes.delete(note.project, note.kind, note.name)
    if not call.printed(deleted):
        say(f"{note.kind} {note.name} is deleted")


def _find_note(notes: "Sequence[Note]", name: str, project: str | None) -> "Note":
    found = [one for one in notes if one.name == name and one.project.startswith(project or "")]
    if not found:
        fail(f"There is no note {name!r} of this kind: mcc notes list shows what there is.")
    if len(found) > 1:
        fail(f"{len(found)} projects have a note {name!r}: say which with --project, as mcc notes list shows.", USAGE)
    return found[0]
