"""Chats about a document: the tools that read and change it, and the summary that its agent starts with."""

from collections.abc import Mapping, Sequence
from itertools import islice

from drone.agent.turns.toolset import Output, StartedCall
from drone.generation.document_tools import DocumentTools, Editor, refused, spec_of
from drone.generation.node_check import judge_open_functions
from drone.generation.port import DocumentLost, DocumentPort
from mcc.contracts.entry import Origin
from mcc.contracts.fence import fenced
from mcc.contracts.shape import now, to_json
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author
from mcc.documents.instructions import component_described
from mcc.documents.node import ROOT, Node
from mcc.documents.prompts import describe
from mcc.documents.staleness import assessed, pending_of, stale_because
from mcc.documents.state import DocumentState, UnknownNode
from mcc.documents.tools import READING, chat_tools
from mcc.documents.views import walk_from
from mcc.transcript.messages import ToolSpec

READ = "document_read"
GROUPS = (READ, "document_write")

MAX_NODES = 60
"""Most nodes listed in the summary."""

READ_NODES = 200
"""Most nodes in one answer of `read_document`."""


async def open_chat(documents: DocumentPort, order_id: str) -> tuple["ChatTools", str]:
    """The tools of a chat about this document, and its summary for the prompt. Raises `DocumentLost`."""
    return ChatTools(documents, order_id), summary_of(documents.blueprint, await documents.state())


def summary_of(blueprint: Blueprint, state: DocumentState) -> str:
    """What a chat agent is told first: counts by status, and the first `MAX_NODES` nodes."""
    counts = assessed(blueprint, state).counts
    figures = ", ".join(f"{count:,} {name}" for name, count in counts.model_dump().items() if count)
    nodes = list(islice(state.walk(), MAX_NODES + 1))
    lines = [f"- {_line(blueprint, state, node)}" for node in nodes[:MAX_NODES]]
    if len(nodes) > MAX_NODES:
        lines.append(f"- and {len(state.nodes) - MAX_NODES:,} more")
    listed = fenced("\n".join(lines), state.id)
    return (
        f"You are asked about a document, made after the blueprint {blueprint.spec.blueprint} (nodes: {figures}). "
        "read_document shows its values, describe_component what a component may hold; what you change is changed at "
        f"once, for all who look at it. Its nodes:\n{listed}"
    )


def _line(blueprint: Blueprint, state: DocumentState, node: Node) -> str:
    status = assessed(blueprint, state).statuses[node.id]
    return f"{state.path(node)} ({status}): {describe(blueprint, state, node)}"


class ChatTools:
    """All visible commands, with the node as an argument, and `read_document` and `describe_component`."""

    def __init__(self, documents: DocumentPort, order_id: str) -> None:
        self._documents = documents
        self._order_id = order_id
        schemas = chat_tools(documents.blueprint)
        self._reading = {schema.name: spec_of(schema, READ) for schema in schemas if schema.name in READING}

        def author(origin: Origin) -> Author:
            return Author(by="chat", at=now(), order_id=order_id, record_id=origin.record_id)

        commands = [schema for schema in schemas if schema.name not in READING]
        self._commands = DocumentTools(documents, commands, Editor(author))

    def specs(self) -> Sequence[ToolSpec]:
        return (*self._reading.values(), *self._commands.specs())

    async def call(self, call: StartedCall) -> Output:
        try:
            match call.name:
                case "read_document":
                    return self._read(await self._documents.state(), call.arguments)
                case "describe_component":
                    return self._describe(call.arguments)
                case _:
                    return await self._change(call)
        except DocumentLost as problem:
            return refused(f"{problem}")

    async def _change(self, call: StartedCall) -> Output:
        output = await self._commands.call(call)
        if call.turn is not None and not output.is_error:
            await judge_open_functions(self._documents, call.turn.threads, call.origin, self._order_id)
        return output

    def _read(self, state: DocumentState, arguments: Mapping[str, object]) -> Output:
        named, depth = arguments.get("node", ROOT), arguments.get("depth")
        if not isinstance(named, str):
            return refused("node must be a path or an id")
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
            return refused("depth must be a whole number, 0 or more")
        try:
            top = state.find(named)
        except UnknownNode as problem:
            return refused(f"{problem}")
        nodes = list(islice(walk_from(state, [(top, 0)], depth), READ_NODES + 1))
        shown = [_node_json(self._documents.blueprint, state, node) for node in nodes[:READ_NODES]]
        more = {"more": "there are more nodes: name one, or a depth"} if len(nodes) > READ_NODES else {}
        return Output(to_json({"version": state.version, "nodes": shown, **more}).decode(), untrusted=True)

    def _describe(self, arguments: Mapping[str, object]) -> Output:
        blueprint = self._documents.blueprint
        try:
            return Output(component_described(blueprint, blueprint.component(str(arguments.get("component")))))
        except LookupError as problem:
            return refused(f"{problem.args[0]}")


def _node_json(blueprint: Blueprint, state: DocumentState, node: Node) -> dict[str, object]:
    wrong = [{"rule": verdict.rule, "message": verdict.message} for verdict in node.verdicts if verdict.ok is False]
    task: dict[str, object] = {
        "path": state.path(node),
        "component": node.component,
        "status": assessed(blueprint, state).statuses[node.id],
        "metadata": node.metadata,
        "props": node.props,
    }
    more: dict[str, object] = {
        "pending": pending_of(blueprint, state, node),
        "stale_because": stale_because(blueprint, state, node),
        "errors": wrong,
        "held": [name for name, provenance in node.provenance.items() if provenance.held],
        "summary": node.summary,
    }
    return {**task, **{name: value for name, value in more.items() if value}}
