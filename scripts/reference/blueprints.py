"""The page on blueprints: what their files may say, read from the models that read them."""

from collections.abc import Iterator, Mapping
from typing import get_args

from pydantic import BaseModel

from mcc.contracts import blueprints as model
from mcc.documents.reading import MAX_BYTES
from mcc.documents.state import MAX_LEVELS, MAX_NODES
from scripts.reference.markdown import code, properties, table

OF_BLUEPRINT: Mapping[str, str] = {
    "blueprint": "Its name.",
    "version": "For people; what counts is the digest of the content.",
    "description": "A sentence for lists.",
    "root": "The component of the root node.",
    "agent": "For every component that says nothing else.",
    "components": "By name. Fields and children keep the order in which they stand.",
}
OF_COMPONENT: Mapping[str, str] = {
    "description": "What it is; its agent reads it.",
    "metadata": "Fields that have an agent of their own, which is asked first. What a person gave is not asked for.",
    "properties": "Fields that the node's agent sets.",
    "rules": "Of the component as a whole; there is no `value` in them.",
    "children": "Components that may stand below it, with how many (`min`, `max`). Its agent makes them; the counts "
    "are rules of it.",
    "describe": "A template: what agents below are told of this node, and so what they depend on. Left out: its name "
    "and its required fields.",
    "agent": "How its agents work, before what the blueprint says for all.",
}
OF_AGENT: Mapping[str, str] = {
    "system": "The beginning of the system prompt.",
    "model": "An alias, `provider/model`, or as the order says.",
    "thinking": "How much the model thinks.",
    "temperature": "Of its replies.",
    "max_tokens": "Of one reply.",
    "max_turns": f"Rounds of the agent; {model.MAX_TURNS} where nothing is said. The order's limit `subagent_rounds` "
    "counts as well.",
    "tools": "Groups of tools that read, or names of such tools.",
    "validate": "`false`: nothing is judged, `done` accepts, and the agent is told no guidelines.",
}
OF_ALL_FIELDS: Mapping[str, str] = {
    "required": "Null breaks a rule.",
    "default": "Set when the node is made.",
    "description": "What it is; the agent reads it.",
    "rules": "In them `value` is the value.",
    "formula": "CEL over `metadata` and `props` that makes the value; null where it meets a null. Nobody sets it.",
    "bind": "A template that makes the value; one brace pair alone keeps the kind. Nobody sets it.",
}
OF_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "text": (
        "A text.",
        {"min_length": "Characters.", "max_length": "Characters.", "pattern": "RE2, found anywhere in the text."},
    ),
    "number": ("A number.", {"integer": "Without a fraction.", "min": "Itself allowed.", "max": "Itself allowed."}),
    "boolean": ("true or false.", {}),
    "choice": ("One of some texts.", {"options": "The texts."}),
    "date": ("A day, as 2026-01-31.", {"after": "Itself not allowed.", "before": "Itself not allowed."}),
    "reference": ("The path of another node.", {"to": "The component that it must be."}),
    "list": (
        "A list of values of one kind.",
        {
            "items": "Their kind: any but list.",
            "min_items": "How many.",
            "max_items": "How many.",
            "unique": "No two alike.",
        },
    ),
}
OF_RULES: Mapping[str, str] = {
    "cel": "An expression that must be true. Names: `metadata` and `props` (every key, null where unset), `value`; in "
    "a rule of a metadata field there is no `props`.",
    "guideline": "A sentence that the agent is told, and nobody judges.",
    "function": "A Python function that is registered under this name: [functions](#functions).",
    "evidence": "CEL with `receipts` beside the other names: what tools of the agent that set the value really did. It "
    "is judged when that agent ends, and kept.",
    "message": "What is said when the rule does not hold; of `cel` and `evidence`.",
}


def kinds() -> Mapping[str, type[BaseModel]]:
    """The models of fields, by their type."""
    return {get_args(one.model_fields["type"].annotation)[0]: one for one in get_args(get_args(model.FieldSpec)[0])}


def page() -> Iterator[str]:
    yield from ("# Blueprints", "")
    yield "A blueprint says what documents are made of: components, their fields, the rules over these, and what may"
    yield "stand below what. It is a file, YAML or JSON, read by the rules of YAML 1.2; `mcc blueprints check FILE`"
    yield f"says all that is wrong with one, with its lines. It has at most {MAX_BYTES // 1024} KB and"
    yield f"{model.MAX_COMPONENTS} components. What stands nowhere below is refused, with the nearest name."
    yield "With examples: [write blueprints](../how-to/write-blueprints.md). What is made of them:"
    yield "[generate documents](../how-to/generate-documents.md)."
    yield ""
    yield "A name means a file of your own, `~/.config/mcc/blueprints/NAME.yaml`, else a blueprint that ships. Another"
    yield "file is read where it is named by its path; folders of workspaces are never looked into."
    yield from ("", "## The file", "")
    yield from _table(model.BlueprintSpec, OF_BLUEPRINT)
    yield from ("## A component", "")
    yield from _table(model.Component, OF_COMPONENT)
    yield from ("## Its agents", "", "`agent` of a component, or of the whole blueprint.", "")
    yield from _table(model.NodeAgent, OF_AGENT)
    yield from _fields()
    yield from ("## Rules", "", "Exactly one of the first four.", "")
    yield from _table(model.BlueprintRule, OF_RULES)
    yield "All rules of a node are judged every time something of it changes, also where the value is null; an error is"
    yield "a failure. Constraints of a field are rules too, and hold for null; `required` does not. Each has an id:"
    yield "`props.title.min_length`, `props.objectives.rules[0]`, `metadata.topic.required`, `rules[1]`,"
    yield "`children.lesson.min`. CEL is [that of this page](cel.md)."
    yield from ("", "## Templates", "")
    yield "`bind` and `describe`: `{metadata.x}`, `{props.x}`, `{position}` (its place among its siblings), in `bind`"
    yield "also `{parent.metadata.x}` and `{parent.props.x}`. `{{` is a brace. Formulas may name formulas and bindings;"
    yield "circles are refused."
    yield from ("", "## Functions", "")
    yield "```python"
    yield "from mcc.documents import function"
    yield from ("", "")
    yield '@function("lesson_titles_differ")'
    yield "def lesson_titles_differ(node):"
    yield '    titles = [child.props["headline"] for child in node.children]'
    yield '    return None if len(set(titles)) == len(titles) else "Two lessons have the same headline."'
    yield "```"
    yield ""
    yield "A function sees a node that cannot be changed: `metadata`, `props`, `component`, `path`, `parent`,"
    yield "`children`. None or true: it holds; a text says what is wrong. It is found in the modules that"
    yield "`[documents] functions` of your own `mcc.toml` names (files beside it, or names to be imported), and in"
    yield "installed packages under the entry point group `mcc.functions`; the service and each drone load them when"
    yield "they start. Where one is missing, its rule is not judged, which is never a pass."
    yield from ("", "## Documents", "")
    yield f"A document has at most {MAX_LEVELS} levels and {MAX_NODES:,} nodes."
    yield ""


def _fields() -> Iterator[str]:
    yield from ("## Fields", "", "All kinds:", "")
    yield from _table(model.AnyField, OF_ALL_FIELDS)
    for name, found in kinds().items():
        words, own = OF_KINDS[name]
        yield from (f"### {name}", "", words, "")
        if own:
            yield from _table(found, own)


def _table(found: type[BaseModel], meanings: Mapping[str, str]) -> Iterator[str]:
    schema = found.model_json_schema()
    known = ((name.strip("`"), what, default) for name, what, default in properties(schema))
    rows = ((code(name), what, default, meanings[name]) for name, what, default in known if name in meanings)
    yield from table(("key", "value", "default", "meaning"), rows)
