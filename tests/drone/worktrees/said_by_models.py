"""Scripts of orders with subagents: the replies of each model, round by round."""

from collections.abc import Callable, Sequence

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from mcc.transcript.messages import AssistantMessage, UserMessage

Steps = Sequence[Said]


def script(master: Steps, **children: Steps) -> Callable[[Ask], Said]:
    """The replies of the master, and those of each child, keyed by the text of its task."""

    def author(ask: Ask) -> Said:
        prompt = next((one.text for one in ask.messages if isinstance(one, UserMessage)), "")
        round_ = sum(isinstance(one, AssistantMessage) for one in ask.messages)
        steps = next((steps for name, steps in children.items() if f"task-{name}" in prompt), master)
        return steps[round_]

    return author


def hire(*names: str, role: str = "coder") -> Line:
    agents = [{"id": name, "role": role, "task": f"task-{name}"} for name in names]
    return Line(calls=(call("subagents_run", agents=agents),))


def write(path: str, content: str) -> Line:
    return Line(calls=(call("write_file", path=path, content=content),))
