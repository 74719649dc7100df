"""The command `mcc generate`: generate a document from a blueprint, or what an existing one lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.cli.blueprints import LocalBlueprints, load_blueprint
from mcc.cli.command import USAGE, fail, say
from mcc.cli.documents import FORMATS
from mcc.cli.field_values import metadata_in
from mcc.cli.following import conclude
from mcc.cli.order_request import OrderRequest, order_fields
from mcc.cli.placing import PlacingOptions, place_and_follow
from mcc.cli.server import resolve_document_id
from mcc.options import OrderOptions, taking_options

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.blueprints import BlueprintSpec
    from mcc.contracts.documents import BlueprintDetail
    from mcc.contracts.order import WorkOrder
    from mcc.documents.blueprint import Blueprint
    from mcc.settings import ServiceSettings

PATHS = ("/", ".")
"""An argument with one of these in it is the path of a file, not a blueprint's name."""

Named = Annotated[
    str | None, typer.Argument(metavar="NAME_OR_PATH", help="A blueprint's name, or the path of its file.")
]
Document = Annotated[
    str | None, typer.Option(metavar="ID", help="Go on with this document instead: its id, an end of it, or @last.")
]
Node = Annotated[
    list[str] | None, typer.Option(metavar="PATH", help="Only this node of the document; may be repeated.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Metadata of the root; may be repeated.")
]
Brief = Annotated[str, typer.Option(metavar="TEXT", help="What all its agents read.")]
Workspace = Annotated[
    Path | None,
    typer.Option(help="Directory to read in; the current one where agents of the blueprint read, else none."),
]
Outline = Annotated[bool, typer.Option("--outline", help="First the structure alone, which then waits for approval.")]
Concurrency = Annotated[int | None, typer.Option(help="Nodes at a time (8).", min=1, max=200)]
OnFailure = Annotated[
    str | None, typer.Option(metavar="collect|fail_fast|quorum=0.9", help="What failed nodes mean for the others.")
]
Out = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Where the document is written: .json, .md, .html or .jsonl; may be repeated."),
]


@taking_options
def generate(
    named: Named = None,
    document: Document = None,
    node: Node = None,
    set_: Set = None,
    brief: Brief = "",
    workspace: Workspace = None,
    outline: Outline = False,
    concurrency: Concurrency = None,
    on_failure: OnFailure = None,
    out: Out = None,
    *,
    options: OrderOptions,
    placing: PlacingOptions,
) -> None:
    """Generate a document from a blueprint, or with --document what is pending, stale or failed in an existing one.

    Its tree is drawn on stderr while agents work on its nodes. The document stays in the database, whether the order
    succeeds or fails, and is written to each --out. Where no service runs and none is named, one is started for this
    order alone.

    Example: mcc generate course --set topic="Photosynthesis" --set grade=8 --out course.md --out course.json
    """
    if (named is None) == (document is None):
        fail("Name either a blueprint, or an existing document with --document.", USAGE)
    if node and document is None:
        fail("--node names a node of a document: --document is missing.", USAGE)
    files = _output_files(out or (), placing.detach)
    generation: dict[str, Any] = {
        "nodes": node or None,
        "outline": outline or None,
        "concurrency": concurrency,
        "on_failure": _failure_policy(on_failure),
    }
    order: dict[str, Any] = {
        "kind": "generate",
        "workspace": str(workspace.resolve()) if workspace else None,
        "generation": {name: value for name, value in generation.items() if value is not None},
        **order_fields(options, placing),
    }
    source = GenerationSource(named, document, tuple(set_ or ()))
    request = GenerationRequest(brief, order, **placing.request_arguments, source=source.read())
    shown = placing.shown

    def concluded(client: "MCC", order: "WorkOrder") -> int:
        code = conclude(order, shown)
        _write(client, order, files, request)
        return code

    place_and_follow(request, placing, shown, conclude=concluded)


@dataclass(frozen=True, slots=True)
class GenerationSource:
    """What to generate from, as given on the command line: a blueprint's name or path, or a document.

    `sets`: metadata of the root, `key=value`. `blueprint`: that of the file, once `read` has read it.
    """

    named: str | None = None
    document: str | None = None
    sets: tuple[str, ...] = ()
    blueprint: "Blueprint | None" = None

    @property
    def is_path(self) -> bool:
        return self.named is not None and any(mark in self.named for mark in PATHS)

    def read(self) -> "GenerationSource":
        """This source, with the blueprint of its file read and checked. Exits where that is wrong."""
        if not self.is_path:
            return self
        from mcc.documents.reading import BlueprintError

        try:
            loaded = replace(self, blueprint=load_blueprint(Path(str(self.named))))
        except BlueprintError as error:
            say(str(error))
            raise typer.Exit(USAGE) from None
        assert loaded.blueprint is not None
        _metadata(loaded.blueprint.spec, self.sets)
        return loaded


@dataclass(frozen=True, slots=True)
class GenerationRequest(OrderRequest):
    """A generate order to place; the service resolves the names of blueprints and documents."""

    source: GenerationSource = GenerationSource()

    def fields(self) -> dict[str, Any]:
        # Placeholders of the right form: only a service can say which document or blueprint is meant.
        source = {"document_id": "00000000-0000-7000-8000-000000000000"} if self.source.document else {"blueprint": "x"}
        return {**OrderRequest.fields(self), **source}

    def check_here(self, settings: "ServiceSettings") -> None:
        if self.source.named is not None and not self.source.is_path:
            _metadata(_spec_in(LocalBlueprints(settings).get(self.source.named)), self.source.sets)

    def place(self, client: "MCC") -> "WorkOrder":
        order = dict(self.order)
        if self.source.document is not None:
            order["document_id"] = resolve_document_id(client, self.source.document)
            pinned = client.documents.get(order["document_id"], depth=0).blueprint
            reference = f"{pinned.name}:{pinned.digest.removeprefix('sha256:')[:12]}"
        elif self.source.blueprint is not None:
            kept = client.blueprints.keep(self.source.blueprint.text)
            reference = order["blueprint"] = f"{kept.name}:{kept.digest.removeprefix('sha256:')[:12]}"
        else:
            reference = order["blueprint"] = str(self.source.named)
        spec = _spec(client, reference)
        order["generation"] = {**order["generation"], "metadata": _metadata(spec, self.source.sets)}
        if order["workspace"] is None and _reads(spec):
            order["workspace"] = str(Path().resolve())
        return self.submit(client, order)


def _spec(client: "MCC", reference: str) -> "BlueprintSpec":
    from mcc.client import Invalid, NotFound

    try:
        return _spec_in(client.blueprints.get(reference))
    except (Invalid, NotFound) as error:
        fail(str(error), USAGE)


def _spec_in(found: "BlueprintDetail") -> "BlueprintSpec":
    from mcc.contracts.blueprints import BlueprintSpec

    return BlueprintSpec.model_validate(found.content)


def _reads(spec: "BlueprintSpec") -> bool:
    """Whether an agent of the blueprint has tools, and so needs a workspace; such tools only read."""
    return any(spec.settings(name).tools for name in spec.components)


def _metadata(spec: "BlueprintSpec", sets: Sequence[str]) -> dict[str, Any]:
    try:
        return metadata_in(spec.components[spec.root], sets)
    except ValueError as problem:
        fail(f"--set: {problem}", USAGE)


def _failure_policy(text: str | None) -> object:
    if text is None or not text.startswith("quorum="):
        return text
    try:
        return {"quorum": float(text.removeprefix("quorum="))}
    except ValueError:
        fail(f"--on-failure: {text!r}: write quorum=0.9, a share of the nodes.", USAGE)


def _output_files(out: Sequence[Path], detach: bool) -> dict[Path, str]:
    """The files to write, with the format of each. Exits where one cannot be written."""
    if out and detach:
        fail("--out writes the result, so it does not go with --detach: mcc documents export does it.", USAGE)
    for file in out:
        if file.suffix.lower() not in FORMATS:
            fail(f"--out: {file} ends in none of {', '.join(FORMATS)}.", USAGE)
        if not file.absolute().parent.is_dir():
            fail(f"--out: there is no directory {file.absolute().parent}.", USAGE)
    return {file: FORMATS[file.suffix.lower()] for file in out}


def _write(client: "MCC", order: "WorkOrder", files: dict[Path, str], request: OrderRequest) -> None:
    for file, format in files.items():
        content = client.documents.export(str(order.document_id), format)
        try:
            file.write_bytes(content)
        except OSError as problem:
            fail(f"{file} cannot be written: {problem.strerror}. The document is kept: {order.document_id}.")
        request.tell(f"written: {file}")
    if not files:
        request.tell(f"document {order.document_id} · mcc documents show {str(order.document_id)[-12:]}")
