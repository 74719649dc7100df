"""A function as a tool: its schema, the validation of its arguments, its results and its failures."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from drone.agent.ports.journal import Fenced
from drone.agent.turns.toolset import Output
from drone.threads import NoThread
from drone.tools.frame.schema import ToolDeclarationError
from drone.tools.frame.tool import FunctionTools, Joined, ToolContext, ToolFailed, declaration_of, tool
from mcc.contracts.journal import Outcome

Use = Callable[..., Coroutine[Any, Any, Output]]


def properties(tools: FunctionTools) -> set[str]:
    named: Any = tools.specs()[0].parameters["properties"]
    return set(named)


@tool(group="workspace_read", idempotent=True, seconds=7, effects="read")
async def count_lines(path: str, kind: Literal["all", "code"] = "all", most: int | None = None) -> int:
    """Lines in a file
    of the workspace.

    More about it.

    Args:
        path: relative to the workspace,
            without a slash in front.
        kind (str): which lines: code, or all of them.

    Returns:
        Not for the model.
    """
    return {"all": 10, "code": 5}[kind] if most is None else most


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


class Point(BaseModel):
    x: int
    y: int = 0


def test_a_tool_is_described_by_its_signature_and_docstring() -> None:
    (spec,) = FunctionTools([count_lines]).specs()
    assert (spec.name, spec.group, spec.idempotent, spec.seconds) == ("count_lines", "workspace_read", True, 7)
    assert spec.description == "Lines in a file of the workspace.\n\nMore about it."
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "description": "relative to the workspace, without a slash in front."},
            "kind": {
                "type": "string",
                "enum": ["all", "code"],
                "default": "all",
                "description": "which lines: code, or all of them.",
            },
            "most": {"type": "integer"},
        },
    }


def test_what_was_declared_can_be_read_and_the_function_stays_a_function() -> None:
    assert declaration_of(count_lines).effects == "read"
    assert declaration_of(shout).group == ""
    assert declaration_of(len).effects is None
    assert shout("a") == "A"


def test_a_tool_may_have_another_name_than_its_function() -> None:
    renamed = tool(name="mcp__say")(lambda text: text)
    assert [spec.name for spec in FunctionTools([renamed]).specs()] == ["mcp__say"]


async def test_sync_and_async_functions_are_called_with_checked_arguments(use: Use) -> None:
    tools = FunctionTools([count_lines, shout])
    assert await use(tools, "count_lines", path="a") == Output("10")
    assert await use(tools, "count_lines", path="a", kind="code", most=None) == Output("5")
    assert await use(tools, "count_lines", path="a", most="3") == Output("3")
    assert await use(tools, "shout", text="hé") == Output("HÉ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, ["`path` is missing.", "count_lines takes {path: string, kind?: "]),
        ({"path": 1}, ["`path`: input should be a valid string, but it was 1."]),
        ({"path": "a", "kind": "some"}, ["`kind`: input should be 'all' or 'code', but it was \"some\"."]),
        ({"path": "a", "paths": "b"}, ["`paths` is not an argument. Did you mean `path`?"]),
        ({"path": "a", "most": "many"}, ["`most`:", "most?: integer}."]),
        ({"path": "a", "most": [1] * 500}, ["…"]),
        ({"path": "a", **{f"x{n}": n for n in range(1_000)}}, ["`x0` is not an argument.", "And 992 more"]),
    ],
)
async def test_wrong_arguments_are_told_in_words(use: Use, arguments: dict[str, object], said: list[str]) -> None:
    output = await use(FunctionTools([count_lines]), "count_lines", **arguments)
    assert output.is_error and output.outcome is Outcome.ERROR
    assert all(part in output.content for part in said), output.content
    assert len(output.content) < 600
    output.content.encode()


async def test_nested_arguments_are_models_and_errors_name_the_place(use: Use) -> None:
    def area(points: list[Point], scale: Annotated[float, Field(gt=0)] = 1.0) -> float:
        """Area."""
        return sum(point.x * point.y for point in points) * scale

    tools = FunctionTools([area])
    assert (await use(tools, "area", points=[{"x": 2, "y": 3}])).content == "6.0"
    wrong = await use(tools, "area", points=[{"x": 2}, {"y": "up"}], scale=-1)
    assert "`points.1.x` is missing." in wrong.content
    assert "`scale`" in wrong.content


async def test_names_that_pydantic_keeps_for_itself_are_ordinary_arguments(use: Use) -> None:
    def odd(model_config: str, json: int, title: str, schema: bool = True) -> list[object]:
        """Odd."""
        return [model_config, json, title, schema]

    tools = FunctionTools([odd])
    assert properties(tools) == {"model_config", "json", "title", "schema"}
    assert (await use(tools, "odd", model_config="a", json=1, title="b")).content == '["a",1,"b",true]'


async def test_results_are_text_or_json(use: Use) -> None:
    def give(what: str) -> object:
        """Give."""
        return {"text": "as it is\n", "none": None, "model": Point(x=1), "surrogate": ["\ud800"]}[what]

    tools = FunctionTools([give])
    assert (await use(tools, "give", what="text")).content == "as it is\n"
    assert (await use(tools, "give", what="none")).content == "null"
    assert (await use(tools, "give", what="model")).content == '{"x":1,"y":0}'
    assert (await use(tools, "give", what="surrogate")).content == '["\\ud800"]'


async def test_a_result_that_is_no_json_is_an_error_result(use: Use) -> None:
    def give() -> object:
        """Give."""
        return object()

    output = await use(FunctionTools([give]), "give")
    assert output.is_error and "is not JSON" in output.content and output.content.startswith("It ran to its end, but")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("error", "said", "outcome"),
    [
        (ToolFailed("Say it again with a path."), "Say it again with a path.", Outcome.ERROR),
        (ToolFailed("Not here.", Outcome.DENIED), "Not here.", Outcome.DENIED),
        (ValueError("bad value"), "fail broke: ValueError: bad value", Outcome.ERROR),
        (StopIteration("odd"), "fail broke: StopIteration: odd", Outcome.ERROR),
        (TimeoutError(), "fail broke: TimeoutError: ", Outcome.ERROR),
    ],
)
async def test_exceptions_become_error_results(
    use: Use, kind: str, error: Exception, said: str, outcome: Outcome
) -> None:
    def sync() -> str:
        """Fail."""
        raise error

    async def later() -> str:
        """Fail."""
        raise RuntimeError if isinstance(error, StopIteration) else error

    function = sync if kind == "sync" else later
    output = await use(FunctionTools([tool(name="fail")(function)]), "fail")
    expected = "fail broke: RuntimeError: " if kind == "async" and isinstance(error, StopIteration) else said
    assert (output.content, output.is_error, output.outcome) == (expected, True, outcome)


async def test_a_tool_that_gets_no_thread_says_so_in_the_words_of_the_runtime(use: Use) -> None:
    async def read_slowly() -> str:
        raise NoThread("Nothing that needs a thread can be called any more.")

    output = await use(FunctionTools([read_slowly]), "read_slowly")
    assert output == Output("Nothing that needs a thread can be called any more.", True, Outcome.ERROR, untrusted=False)


async def test_a_full_disk_is_a_result_that_the_model_is_told(use: Use) -> None:
    def save(text: str) -> int:
        """Save it."""
        with open("/dev/full", "w") as full:
            return full.write(text)

    output = await use(FunctionTools([tool(save)]), "save", text="x" * 100_000)
    assert output.outcome is Outcome.ERROR and "No space left" in output.content


async def test_the_message_of_an_exception_is_bounded_and_has_no_traceback(use: Use) -> None:
    def fail() -> str:
        """Fail."""
        raise ValueError("x" * 1_000_000)

    output = await use(FunctionTools([fail]), "fail")
    assert len(output.content) < 2_200 and "Traceback" not in output.content


async def test_being_fenced_is_not_a_result(use: Use) -> None:
    async def fail() -> str:
        """Fail."""
        raise Fenced

    with pytest.raises(Fenced):
        await use(FunctionTools([fail]), "fail")


async def test_the_context_is_filled_in_and_not_shown(use: Use) -> None:
    def whoami(context: ToolContext, suffix: str = "!") -> str:
        """Who."""
        return f"{context.call_id} {context.origin.agent} {context.workspace}{suffix}"

    tools = FunctionTools([whoami])
    assert properties(tools) == {"suffix"}
    assert (await use(tools, "whoami")).content == "call-1 master None!"
    assert (await use(tools, "whoami", context="forged")).is_error


async def test_a_sync_function_runs_beside_the_loop(use: Use) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        reached.set()
        return str(go_on.wait(10))

    async def free() -> str:
        """Free."""
        await asyncio.to_thread(reached.wait, 10)
        go_on.set()
        return "went on"

    tools = FunctionTools([wait, free])
    waited, freed = await asyncio.gather(use(tools, "wait"), use(tools, "free"))
    assert (waited.content, freed.content) == ("True", "went on")


async def test_a_function_whose_caller_went_away_is_told_to_stop(use: Use) -> None:
    reached, stopped = threading.Event(), threading.Event()

    def dig(context: ToolContext) -> str:
        """Dig."""
        reached.set()
        if context.stop.wait(10):
            stopped.set()
        return ""

    digging = asyncio.create_task(use(FunctionTools([dig]), "dig"))
    assert await asyncio.to_thread(reached.wait, 10)
    digging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await digging
    assert await asyncio.to_thread(stopped.wait, 10)


async def test_an_unknown_tool_is_told_with_the_nearest_and_all_there_are(use: Use) -> None:
    output = await use(FunctionTools([count_lines, shout]), "count_line")
    assert output.is_error
    assert "Did you mean count_lines? You have: count_lines, shout." in output.content
    assert "You have no tools" in (await use(FunctionTools([]), "x" * 10_000)).content


async def test_joined_sets_are_one_set(use: Use) -> None:
    joined = Joined(FunctionTools([count_lines]), FunctionTools([shout]))
    assert [spec.name for spec in joined.specs()] == ["count_lines", "shout"]
    assert (await use(joined, "shout", text="a")).content == "A"
    assert "You have: count_lines, shout" in (await use(joined, "whisper")).content


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolDeclarationError, match="Two tools are called 'shout'"):
        FunctionTools([shout, shout])
    with pytest.raises(ToolDeclarationError, match="Two tools are called 'shout'"):
        Joined(FunctionTools([shout]), FunctionTools([shout]))


def test_what_cannot_be_shown_to_a_model_is_refused_when_it_is_declared() -> None:
    def anything(*parts: str, **more: str) -> str:
        return ""

    def unknown(thing: "Nowhere") -> str:  # type: ignore[name-defined] # noqa: F821
        return ""

    def event(thing: threading.Event) -> str:
        return ""

    for function, said in ((anything, "named one by one"), (unknown, "Nowhere"), (event, "cannot be described")):
        with pytest.raises(ToolDeclarationError, match=said):
            FunctionTools([function])


def test_an_unknown_group_is_refused_with_the_nearest() -> None:
    with pytest.raises(ToolDeclarationError, match="did you mean 'workspace_read'"):
        tool(group="workspace_reed")


def test_a_function_is_made_a_tool_once_for_all_sets() -> None:
    def echo(text: str) -> str:
        return text

    first, again = FunctionTools([echo]).specs()[0], FunctionTools([echo]).specs()[0]
    assert first is again
    tool(name="shout")(echo)
    assert FunctionTools([echo]).specs()[0].name == "shout", "what is declared anew is made anew"


def test_a_function_around_another_is_a_tool_of_its_own() -> None:
    def echo(text: str) -> str:
        """Says it."""
        return text

    inner = FunctionTools([echo]).specs()[0]

    @functools.wraps(echo)
    def louder(text: str) -> str:
        return text.upper()

    assert FunctionTools([louder]).specs()[0] is not inner


def test_methods_are_tools_too() -> None:
    class Counter:
        def count(self, number: int) -> int:
            return number

    assert [FunctionTools([one.count]).specs()[0].name for one in (Counter(), Counter())] == ["count"] * 2


def test_a_tool_that_a_group_lists_is_in_that_group_unless_it_says_another() -> None:
    def read_file(path: str) -> str:
        return path

    assert FunctionTools([read_file]).specs()[0].group == "workspace_read"
    tool(group="web_read")(read_file)
    assert FunctionTools([read_file]).specs()[0].group == "web_read"
