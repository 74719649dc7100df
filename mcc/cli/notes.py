"""The commands `mcc notes`: notes that agents keep for later orders."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_table, print_wrapped, say
from mcc.cli.server import ServiceCall, list_by_default, service_command
from mcc.view.output import brief, exact_line

if TYPE_CHECKING:
    from mcc.contracts.notes import Note

_INDENT = 6
"""Of further lines of a text, below its mark."""

app = typer.Typer(help="What agents wrote down for later orders: memory, plans, tasks.", rich_markup_mode=None)

Kind = Annotated[Literal["memory", "plan", "task"], typer.Option(help="Which kind of note.")]
AnyKind = Annotated[Literal["memory", "plan", "task"] | None, typer.Option(help="Only notes of this kind.")]
Name = Annotated[str, typer.Argument(help="The note's name; a task's number.")]
Version = Annotated[int | None, typer.Option(help="Which of several versions that wait.")]
Project = Annotated[
    str | None, typer.Option(help="Its project, or the beginning of it, where several have such a note.")
]


@service_command(app, "list")
def list_notes(call: ServiceCall, kind: AnyKind = None, project: Project = None) -> None:
    """Notes of all projects, newest first, at most 200; before them the memories that wait for you.

    Example: mcc notes list --kind memory
    """
    listed = (*call.client.notes.list(kind=kind, state="pending"), *call.client.notes.list(kind=kind))
    notes = [note for note in listed if note.project.startswith(project or "")]
    if call.printed({"items": notes}):
        return
    rows = [
        (
            note.kind,
            note.name,
            note.title or brief(note.text, 120),
            note.agent,
            clock(note.verified_at),
            _state(note),
            note.workspace or "(session)",
            note.project[:12],
        )
        for note in notes
    ]
    print_table(
        ("KIND", "NAME", "SAYS", "BY", "VERIFIED", "STATE", "WORKSPACE", "PROJECT"), rows, empty="No notes yet."
    )


list_by_default(app, list_notes)


@service_command(app)
def show(call: ServiceCall, name: Name, kind: Kind = "memory", project: Project = None) -> None:
    """One note with all its versions: who wrote which, from which entry of which order, and whether it counts. Below
    them the text that counts, and that of each version that waits for you.

    Example: mcc notes show build
    """
    pending = call.client.notes.list(kind=kind, state="pending")
    newest = {note.project: note for note in (*pending, *call.client.notes.list(kind=kind)) if note.name == name}
    note = _find_note([*newest.values()], name, project)
    versions = call.client.notes.history(note.project, note.kind, note.name)
    if call.printed({"items": versions}):
        return
    rows = [
        (
            version.version,
            clock(version.written_at),
            version.agent or version.principal,
            listed_id(version.order_id) if version.order_id else "",
            version.seq or "",
            version.status or "",
            _state(version),
            version.decided_by or "",
        )
        for version in versions
    ]
    print_table(("VERSION", "WRITTEN", "BY", "ORDER", "ENTRY", "STATUS", "STATE", "DECIDED BY"), rows, empty="")
    waiting = [version for version in versions if version.state == "pending" and version.version != note.version]
    for shown in (note, *reversed(waiting)):
        print()
        for line in _in_full(shown):
            print_wrapped(line, _INDENT)


@service_command(app)
def accept(call: ServiceCall, name: Name, version: Version = None, project: Project = None) -> None:
    """Accept a memory that waits for you: from now on it counts for agents of all sessions. Read it first: mcc notes
    show NAME, mcc inbox.

    Example: mcc notes accept build
    """
    note = _find_pending(call, name, version, project)
    accepted = call.client.notes.accept(note.project, note.name, note.version)
    if not call.printed(accepted):
        say(f"accepted: {note.name}, version {note.version}{', is deleted' if note.deleted else ''}")


@service_command(app)
def reject(call: ServiceCall, name: Name, version: Version = None, project: Project = None) -> None:
    """Reject a memory that waits for you: no agent sees it any more, and what counted before it stays.

    Example: mcc notes reject build
    """
    note = _find_pending(call, name, version, project)
    rejected = call.client.notes.reject(note.project, note.name, note.version)
    if not call.printed(rejected):
        say(f"rejected: {note.name}, version {note.version}")


@service_command(app)
def delete(call: ServiceCall, name: Name, kind: Kind = "memory", project: Project = None) -> None:
    """Take a note away, so that no agent reads it any more.

    Example: mcc notes delete build
    """
    note = _find_note(call.client.notes.list(kind=kind), name, project)
    deleted = call.client.notes.delete(note.project, note.kind, note.name)
    if not call.printed(deleted):
        say(f"{note.kind} {note.name} is deleted")


def _in_full(note: "Note") -> Iterator[str]:
    """A version with its text, each line of which is marked, so that none looks like a line about another version."""
    waits = ", which waits for you" if note.state == "pending" else ""
    says = "the note is deleted" if note.deleted else exact_line(note.title)
    yield f"version {note.version}{waits}{f': {says}' if says else ''}"
    yield from (f"    │ {line}" for line in (() if note.deleted else note.text.split("\n")))


def _state(note: "Note") -> str:
    if note.state != "accepted":
        return f"{note.state}{', read outside' if note.tainted else ''}"
    return "stale" if note.stale else ""


def _find_pending(call: ServiceCall, name: str, version: int | None, project: str | None) -> "Note":
    pending = call.client.notes.list(kind="memory", state="pending")
    waiting = [note for note in _named(pending, name, project) if version in (None, note.version)]
    if not waiting:
        fail(f"No memory {name!r} waits for you: mcc notes list shows what does.")
    if len(waiting) > 1:
        listed = ", ".join(f"version {note.version} of project {note.project[:12]}" for note in waiting)
        fail(f"{len(waiting)} of this name wait: say which with --version and --project ({listed}).", USAGE)
    return waiting[0]


def _named(notes: "Sequence[Note]", name: str, project: str | None) -> "Sequence[Note]":
    return [note for note in notes if note.name == name and note.project.startswith(project or "")]


def _find_note(notes: "Sequence[Note]", name: str, project: str | None) -> "Note":
    found = _named(notes, name, project)
    if not found:
        fail(f"There is no note {name!r} of this kind: mcc notes list shows what there is.")
    if len(found) > 1:
        fail(f"{len(found)} projects have a note {name!r}: say which with --project, as mcc notes list shows.", USAGE)
    return found[0]
