"""The tree that a journey must leave, built from the script and the tools, without journal or fold."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drone.agent.turns.toolset import StartedCall
from drone.tools.catalog import Toolbox
from drone.tools.frame.wrappers import Timed
from mcc.contracts.entry import Origin
from mcc.contracts.fence import unfenced
from mcc.contracts.record import ChatRecord, ToolStep
from tests.journey.script import SCRIPT

INVENTORY = " You have: "
"""Behind these words an unknown tool's result lists what its agent has; the play knows no agents."""


@dataclass
class Leaf:
    """One agent's run in the words that matter: what was said, what was called, what came back, who was sent."""

    agent: str
    prompt: str
    said: list[tuple[str, str]] = field(default_factory=list)
    results: list[tuple[str, str, bool]] = field(default_factory=list)
    children: list["Leaf"] = field(default_factory=list)
    answer: str = ""


class Playwright:
    """Plays the script with the real tools, one call after the other."""

    def __init__(self, workspace: Path) -> None:
        self._tools = Timed(Toolbox.found().tools(workspace), 120)

    async def play(self, agent: str, prompt: str) -> Leaf:
        leaf = Leaf(agent, prompt)
        rule = next(rule for rule in SCRIPT["rules"] if rule["match"] in prompt)
        for reply in rule["replies"]:
            leaf.said.append((reply.get("text", ""), reply.get("thinking", "")))
            for wanted in reply.get("tool_calls", ()):
                leaf.results.append(await self._result(leaf, wanted))
        leaf.answer = rule["replies"][-1]["text"]
        return leaf

    async def _result(self, leaf: Leaf, wanted: dict[str, Any]) -> tuple[str, str, bool]:
        name, arguments = wanted["name"], wanted["arguments"]
        if name == "subagent":
            child = await self.play(arguments["agent_type"], arguments["prompt"])
            leaf.children.append(child)
            return name, child.answer, False
        output = await self._tools.call(StartedCall("x", name, arguments, Origin()))
        return name, output.content.partition(INVENTORY)[0], output.is_error


def _content(step: ToolStep) -> str:
    """What the call brought; a child's answer without the line that names its record."""
    content = unfenced(step.content)
    if not step.subagent_ids:
        return content.partition(INVENTORY)[0]
    (child_id,) = step.subagent_ids
    named = f"\n\nrecord_id: {child_id}"
    assert content.endswith(named)
    return content.removesuffix(named)


def leaf_of(record: ChatRecord) -> Leaf:
    """A stored record in the same words; tool results in the order of their calls."""
    calls = [wanted for step in record.steps if step.kind == "model" for wanted in step.tool_calls]
    results = {step.call_id: step for step in record.steps if step.kind == "tool"}
    assert set(results) == {wanted.call_id for wanted in calls}
    told = [results[wanted.call_id] for wanted in calls]
    by_call = {child.call_id: child for child in record.subagent_history}
    return Leaf(
        agent=record.agent,
        prompt=record.prompt,
        said=[(step.text, step.thinking) for step in record.steps if step.kind == "model"],
        results=[(step.name, _content(step), step.is_error) for step in told],
        children=[leaf_of(by_call[wanted.call_id]) for wanted in calls if wanted.call_id in by_call],
        answer=record.answer or "",
    )
