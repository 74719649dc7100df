"""Commands as tools: each call becomes one dispatch to the document, or an error for the model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drone.agent.turns.toolset import Output, StartedCall
from drone.generation.port import DocumentLost, DocumentPort
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import to_json
from mcc.contracts.similar import did_you_mean
from mcc.documents.change import Author, DispatchRefused
from mcc.documents.commands import commands_of
from mcc.documents.tools import ToolSchema
from mcc.transcript.messages import ToolSpec

GROUP = "document_write"
ANSWERED = 50
"""Most paths listed in one answer."""


@dataclass(frozen=True, slots=True)
class Editor:
    """On whose behalf tools change the document. `node_id` is the node an agent is bound to; None = calls name it.

    `author` is called for each call, with its origin. `on_lost` is called when work on the document cannot continue.
    """

    author: Callable[[Origin], Author]
    node_id: str | None = None
    on_lost: Callable[[DocumentLost], None] = lambda problem: None


class DocumentTools:
    """The commands of `schemas` as a tool set; a call that is run again is not applied again."""

    def __init__(self, documents: DocumentPort, schemas: Iterable[ToolSchema], editor: Editor) -> None:
        self._documents = documents
        self._editor = editor
        self._specs = {schema.name: spec_of(schema) for schema in schemas}

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(self._specs.values())

    async def call(self, call: StartedCall) -> Output:
        spec = self._specs.get(call.name)
        if spec is None:
            return refused(f"There is no tool {call.name[:200]}.")
        # A bound agent's tool has fewer arguments than its command has fields, so parsing alone would allow more.
        if unknown := _unknown_arguments(call.arguments, spec):
            return refused(*unknown)
        try:
            commands = commands_of({**call.arguments, "command": call.name}, self._editor.node_id)
            author = self._editor.author(call.origin)
            change = await self._documents.dispatch(call.origin, commands, author, command_id_of(call.call_id))
        except DispatchRefused as refusal:
            return refused(*refusal.sentences)
        except DocumentLost as problem:
            self._editor.on_lost(problem)
            return refused(f"{problem}.")
        answer = {"version": change.version, "changed": _listed(change.changed), "made": _listed(change.made)}
        return Output(to_json(answer).decode(), untrusted=False)


def command_id_of(call_id: str) -> str:
    """The command id of a call: the same for every run of it, so that a resumed call is not applied twice."""
    return derived_id(call_id, "command")


def spec_of(schema: ToolSchema, group: str = GROUP) -> ToolSpec:
    """The tool for the agent runtime. Writing tools of one reply run one after another."""
    return ToolSpec(
        schema.name,
        schema.description,
        schema.parameters,
        group=group,
        idempotent=True,
        untrusted=False,
        effects="write" if group == GROUP else "read",
    )


def _unknown_arguments(arguments: Mapping[str, object], spec: ToolSpec) -> list[str]:
    known = spec.parameters.get("properties")
    names = list(known) if isinstance(known, Mapping) else []
    return [
        f"{spec.name} has no argument {name[:80]!r}{did_you_mean(name, names)}"
        for name in arguments
        if name not in names
    ]


def _listed(paths: Sequence[str]) -> list[str]:
    more = len(paths) - ANSWERED
    return [*paths[:ANSWERED], *([f"and {more:,} more"] if more > 0 else [])]


def refused(*sentences: str) -> Output:
    lines = [one if one.endswith((".", "!", "?")) else f"{one}." for one in sentences]
    return Output("\n".join(lines), is_error=True, outcome=Outcome.ERROR, untrusted=False)
