"""What the processes of a family under test are told beside their settings, and where things lie."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.faults.failpoints import Failpoints
from tests.faults.repositories import ASKED_FOR
from tests.faults.script import ONCE

DIRECTORY, MEMBER = "FAULTS_DIRECTORY", "FAULTS_MEMBER"
MODEL, MODEL_OF_MESSAGES = "scripted-chat", "scripted-messages"
"""Aliases of the fake model server in its two wire formats."""


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one run. `directory` is the evidence; in it, judged by nobody, `private` is for what the processes
    keep, and `control` for what they are told."""

    directory: Path

    @property
    def private(self) -> Path:
        return self.directory / "private"

    @property
    def control(self) -> Path:
        return self.directory / "control"

    @property
    def failpoints(self) -> Path:
        return self.control / "failpoints.json"

    @property
    def llm_control(self) -> Path:
        return self.control / "llm.json"

    @property
    def prompts(self) -> Path:
        return self.control / "prompts"

    @property
    def settings(self) -> Path:
        return self.control / "mcc.toml"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def viewers(self) -> Path:
        return self.directory / "viewers"

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.log"

    @property
    def llm_log(self) -> Path:
        return self.directory / "llm.jsonl"

    @property
    def faults(self) -> Path:
        return self.directory / "faults.jsonl"

    def prepare(self) -> None:
        for directory in (self.directory, self.private, self.control, self.logs, self.viewers):
            directory.mkdir(parents=True, exist_ok=True)
        for name, text in AGENTS.items():
            file = self.prompts / name / "system.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for file in (self.ledger, self.llm_log, self.faults):
            file.touch()

    def configure(self, port: int) -> None:
        """Both forms of the model server that listens on this port, and no person who would have to be asked but for
        one tool."""
        models = "".join(
            f'[models.{alias}]\nprovider = "{form}"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
            f'model = "scripted"\napi_key_env = "HARNESS_KEY"\n\n'
            for alias, form in ((MODEL, "openai"), (MODEL_OF_MESSAGES, "anthropic"))
        )
        allowed = f'[permission]\n{ONCE} = "allow"\n{ASKED_FOR} = "ask"\n'
        self.settings.write_text(f'{models}[defaults]\nmodel = "{MODEL}"\n\n{allowed}')

    def told(self, member: str) -> Mapping[str, str]:
        """The environment that leads a process here."""
        return {DIRECTORY: str(self.directory), MEMBER: member}


def places_of_this_process() -> tuple[Places, Failpoints]:
    """Read in the assembly of a process under test. Raises KeyError outside of a family."""
    places = Places(Path(os.environ[DIRECTORY]))
    return places, Failpoints(places.failpoints, places.faults, os.environ[MEMBER])


AGENTS: Mapping[str, str] = {
    "master": """---
name: master
description: Plays its part of a script.
tools: [ledger_once, ledger_idem, linger, workspace_write, delegation]
spawns: [worker, auditor]
limits: {rounds: 50}
result: text
---
Play your part.
""",
    "subagent/reader": """---
name: reader
description: Plays a part in which nothing is written into the workspace.
tools: [ledger_once, ledger_idem, linger, delegation]
spawns: [worker, auditor]
limits: {rounds: 50}
result: text
---
Play your part.
""",
    "subagent/poisonous": """---
name: poisonous
description: Calls what harms its drone.
tools: [hold_interpreter, never_stop, glance, workspace_read]
spawns: []
limits: {rounds: 50}
result: text
---
Play your part.
""",
    "subagent/commander": """---
name: commander
description: Runs commands.
tools: [environment_read, shell_write]
spawns: []
limits: {rounds: 50}
result: text
---
Play your part.
""",
    "subagent/editor": """---
name: editor
description: Writes its lines into a file that others write as well.
tools: [workspace_read, workspace_write, shell_write]
spawns: []
limits: {rounds: 90}
result: text
---
Write your lines.
""",
    "subagent/worker": """---
name: worker
description: Plays a part and answers in text.
tools: [ledger_once, ledger_idem, linger, workspace_write]
spawns: []
limits: {rounds: 24}
result: text
---
Play your part.
""",
    "subagent/auditor": """---
name: auditor
description: Plays a part and hands in a report.
tools: [ledger_once, ledger_idem, linger, workspace_write]
spawns: []
limits: {rounds: 24}
---
Play your part.
""",
}
