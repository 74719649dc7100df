"""The witness: each effect is one line, whoever wrote it, and the tools say what scripts expect of them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drone.agent.turns.toolset import StartedCall
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.entry import Origin
from tests.faults.ledger import KEPT_TIMES, Effect, Ledger, effects, kept_file, ledger_tools
from tests.faults.script import IDEM, KEEP, LINGER, ONCE, lingered, wrote


def test_lines_of_many_writers_stay_whole(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.log")
    written = [Effect("order", f"master/{number}", f"call-{number}", ONCE, 1, number, 1.5) for number in range(50)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ledger.write, written))
    assert sorted(effects(tmp_path / "ledger.log"), key=lambda one: one.pid) == written


async def test_the_tools_leave_a_line_for_each_effect_and_say_so(tmp_path: Path) -> None:
    midway: list[int] = []

    async def count(order_id: str) -> None:
        midway.append(len(effects(tmp_path / "ledger.log")))

    tools = FunctionTools(ledger_tools(Ledger(tmp_path / "ledger.log"), count))
    origin = Origin(record_id="record")
    for number, name in enumerate((ONCE, IDEM)):
        output = await tools.call(StartedCall(f"call-{number}", name, {"path": "master", "mark": f"m{number}"}, origin))
        assert (output.content, output.is_error) == (wrote(name, f"m{number}"), False)
    output = await tools.call(StartedCall("call-2", LINGER, {"seconds": 0.01, "mark": "m2"}, origin))
    assert output.content == lingered("m2")
    told = [(one.agent_path, one.call_id, one.tool) for one in effects(tmp_path / "ledger.log")]
    assert told == [("master", "call-0", ONCE), ("master", "call-1", IDEM)]
    assert midway == [1, 2, 2]


def test_only_ledger_once_may_not_be_run_again(tmp_path: Path) -> None:
    tools = FunctionTools(ledger_tools(Ledger(tmp_path / "ledger.log")))
    repeatable = {spec.name: spec.idempotent for spec in tools.specs()}
    assert repeatable == {ONCE: False, IDEM: True, LINGER: True, KEEP: True}


async def test_a_file_is_kept_in_the_workspace_where_there_is_one(tmp_path: Path) -> None:
    functions = ledger_tools(Ledger(tmp_path / "ledger.log"))
    call = StartedCall("call-0", KEEP, {"path": "master", "mark": "m0"}, Origin(record_id="record"))
    output = await FunctionTools(functions, workspace=Workspace(tmp_path)).call(call)
    assert (output.content, output.is_error) == (wrote(KEEP, "m0"), False)
    assert kept_file(tmp_path, "call-0").read_text() == "m0" * KEPT_TIMES
    assert (await FunctionTools(functions).call(call)).is_error


def test_a_ledger_that_nobody_wrote_has_no_effects(tmp_path: Path) -> None:
    assert effects(tmp_path / "nothing.log") == []
