"""Two reviewers side by side, each held to rules: a finding counts only when its file was really read.

The models are scripted, so that this runs anywhere: one reviewer reports a file that it never read, is refused, reads
it and hands in again. Run: python examples/parallel_review.py
"""

import asyncio
import tempfile
from pathlib import Path

import drone
from drone.models.scripted import Line, ScriptedModel, by_prompt, call
from mcc.contracts.order import Rule

EVIDENCE = Rule(
    cel="result.findings.all(f, receipts.exists(r, r.tool == 'read_file' && r.ok && r.path == f.path))",
    message="Every finding needs a path that you have read.",
)
REVIEWER = drone.AgentDefinition(
    name="reviewer",
    prompt="Review what you are asked to. Report risks, each with the path of its file.",
    result="report",
    rules=(EVIDENCE,),
)


def play(task: str, replies: int) -> Line:
    """What the scripted reviewers say: the hasty one reports before it has read."""
    path = "pay.py" if "payments" in task else "login.py"
    read = Line(calls=(call("read_file", path=path),))
    finding = {"title": "No limit on tries", "path": path, "severity": "high"}
    report = Line(calls=(call("submit_result", status="completed", summary=f"Looked at {path}.", findings=[finding]),))
    order = [report, read, report] if "payments" in task else [read, report]
    return order[replies]


async def review(folder: str) -> None:
    models = {"scripted": ScriptedModel(by_prompt(play))}
    runner = drone.InProcessRunner(models, definitions=[REVIEWER], workspace=folder)
    tasks = ["Review the payments.", "Review the login."]
    for result in await runner.run_parallel([("reviewer", task) for task in tasks]):
        assert result.record is not None
        checks = [step.ok for step in result.record.steps if step.kind == "gate"]
        print(result.text, "checks:", checks, "tokens:", result.tokens)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pay.py").write_text("def pay(): ...\n")
        Path(folder, "login.py").write_text("def login(): ...\n")
        asyncio.run(review(folder))


main()
