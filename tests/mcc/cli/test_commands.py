"""The commands `mcc …`: exit codes, JSON, help, and output that is safe for a terminal."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from drone.cli import app as drone_app
from mcc import __version__
from mcc.cli.command import say
from mcc.cli.main import app
from mcc.client.calls import get_order, result_of
from mcc.client.errors import Unreachable
from mcc.contracts.drones import Capability, Registration
from mcc.contracts.entry import ORDER, Draft
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import OrderOutcome
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.local.data_dir import upgrade_database
from mcc.local.presence import Hold, Presence
from mcc.store.rows.values import Claim, Ending
from mcc.store.store import Store, open_store
from tests.forking import popen
from tests.mcc.cli.in_process import CliRunner

pytestmark = pytest.mark.group("commands")

MCC = [sys.executable, "-m", "mcc.cli.main"]
SEEN = "# Done\n⟦U+001B⟧[31mred⟦U+001B⟧[0m ⟦U+001B⟧]52;c;c2VjcmV0⟦U+0007⟧ [bold]kept[/bold]\n"
NASTY = "# Done\n\x1b[31mred\x1b[0m \x1b]52;c;c2VjcmV0\x07 [bold]kept[/bold]"


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    code: int
    stdout: str
    stderr: str


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    return {**own, "MCC_DATA_DIR": str(data_dir), **more}


def mcc(*arguments: str, data_dir: Path, given: str | None = None, cwd: Path | None = None, **more: str) -> Done:
    """Run the command in this process. `mcc run` replaces the handler of SIGTERM; the old one is restored."""
    wanted = environment(data_dir, **more)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with chdir(cwd or Path.cwd()):
            absent = dict.fromkeys(os.environ.keys() - wanted.keys())
            done = CliRunner().invoke(app, arguments, input=given, env={**wanted, **absent}, catch_exceptions=False)
    finally:
        signal.signal(signal.SIGTERM, before)
    return Done(done.exit_code, done.stdout, done.stderr)


def mcc_process(*arguments: str, data_dir: Path, cwd: Path | None = None, **more: str) -> Done:
    """Run the command in a process of its own, as a shell does."""
    done = popen.run(
        [*MCC, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env=environment(data_dir, **more),
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def commands(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    below = getattr(group, "commands", None)
    if below is None:
        yield path
        return
    for name, command in below.items():
        yield from commands(command, (*path, name))


ALL = sorted(commands(typer.main.get_command(app)))


ORDER_VERBS = ["list", "show", "watch", "record", "cancel", "pause", "resume", "steer", "set-metadata"]
ORDER_VERBS += ["retry", "fork", "rollback", "diff", "log"]


def test_every_promised_command_is_there() -> None:
    names = {" ".join(path) for path in ALL}
    spoken = {f"orders {verb}" for verb in ORDER_VERBS}
    listed = {"up", "serve", "run", "db upgrade", "sessions list", "sessions show", "drones list", "models"}
    agents = {"agents list", "agents show", "agents check"}
    assert names >= spoken | listed | agents | {"config show", "doctor"}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_helps_with_an_example_and_speaks_json(path: tuple[str, ...]) -> None:
    told = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    assert CliRunner().invoke(app, [*path, "-h"], env={"COLUMNS": "200"}).output == told.output
    assert "Example: " in told.output
    assert "--json" in told.output or path in (("orders", "record"), ("completion",), ("chat",))


GROUPS = sorted({path[0] for path in ALL if len(path) > 1})


@pytest.mark.parametrize("name", GROUPS)
def test_every_group_helps_with_an_example_that_is_one_of_its_commands(name: str) -> None:
    told = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"})
    example = told.output.partition(f"Example: mcc {name} ")[2].split()
    assert (name, example[0]) in ALL


def test_both_commands_say_their_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"mcc {__version__}\n"
    assert CliRunner().invoke(drone_app, ["--version"]).output == f"drone {__version__}\n"


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    script = mcc("completion", "bash", data_dir=tmp_path).stdout
    ask = "COMP_WORDS=(mcc orders ste); COMP_CWORD=2; _mcc_completion mcc; echo ${COMPREPLY[@]}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert (done.stdout, done.stderr) == ("steer\n", "")


@pytest.mark.parametrize(
    ("shell", "ask", "answer"),
    [
        ("zsh", 'print -r -- "$_comps[mcc]"', "_mcc_completion\n"),
        ("fish", 'complete -C "mcc orders ste"', "steer\tSay something to the master of a running...\n"),
    ],
)
def test_a_shell_without_a_start_file_of_its_own_takes_its_script(
    shell: str, ask: str, answer: str, tmp_path: Path
) -> None:
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"there is no {shell} here")
    script = tmp_path / "script"
    script.write_text(mcc("completion", shell, data_dir=tmp_path).stdout)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    plain = [program, "-f"] if shell == "zsh" else [program, "--no-config"]
    done = subprocess.run(
        [*plain, "-c", f"source {script}; {ask}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
    )
    assert (done.stdout, done.stderr) == (answer, "")


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("zsh", {"_MCC_COMPLETE": "complete_zsh"}),
        ("fish", {"_MCC_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_other_shells_are_answered_what_their_script_asks(shell: str, asked: dict[str, Any], tmp_path: Path) -> None:
    script = mcc("completion", shell, data_dir=tmp_path).stdout
    assert all(part in script for part in (*asked, f"complete_{shell}", "_TYPER_COMPLETE_ARGS"))
    told = mcc_process(data_dir=tmp_path, _TYPER_COMPLETE_ARGS="mcc up --det", **asked)
    assert (told.code, "--detach" in told.stdout) == (0, True), told.stderr


def test_a_sentence_is_lost_where_nobody_reads_stderr_any_more() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with suppress(BrokenPipeError), open(writer, "w") as nobody:
        with redirect_stderr(nobody):
            say("Stopping")
        reached = True
    assert reached


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, mcc.cli.main; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"pydantic", "sqlalchemy", "celery", "redis", "fastapi", "httpx", "rich", "structlog", "asyncio"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["orders", "list", "--limit", "0"], ["up", "--port", "70000"], ["run"]], ids=str
)
def test_a_wrong_use_is_2(arguments: Sequence[str], tmp_path: Path) -> None:
    assert mcc(*arguments, data_dir=tmp_path).code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "hello", "--limit", "rounds"], "key=value"),
        (["run", "hello", "--limit", "rounds=0"], r"limits\.rounds"),
        (["run", "hello", "--limit", "rounds=many"], r"limits\.rounds: Input should be a whole number, such as 5\n"),
        (["run", "hello", "--limit", "rouns=3"], "no limit 'rouns'; did you mean 'rounds'"),
        (["run", "hello", "--limit", "money=3"], "there is: .*cost_usd"),
        (["run", "hello", "--agent", "no agent"], "agent"),
        (["run", "hello", "--session", "7"], "session_id"),
        (["run", "hello", "--thinking", "hihg"], "thinking"),
        (["run", "hello", "--temperature", "3"], "temperature"),
        (["run", "hello", "--workspace", "/nowhere"], "/nowhere is not a directory"),
        (["run", "hello", "--rule", "result.x =="], r"rules\[0\]\.cel"),
        (["run", "hello", "--schema", "nowhere.json"], "nowhere.json cannot be read"),
        (["run", "hello", "--schema", "{"], "--schema is not JSON"),
        (["run", "hello", "--schema", '{"type": "text"}'], "result_schema.type: 'text' is not a type"),
        (["run", "hello", "--not-before", "soon"], "'soon' is no time"),
        (["run", "hello", "--idempotency-key", "a b"], "visible ASCII"),
        (["run", "hello", "--continue", "--session", "x"], "give one of them"),
        (["run", "hello", "--json=last"], "--json=final"),
        (["run", ""], "prompt"),
    ],
)
def test_an_order_that_no_service_would_take_is_2_before_anything_is_started(
    arguments: Sequence[str], sentence: str, tmp_path: Path
) -> None:
    told = mcc(*arguments, data_dir=tmp_path)
    assert told.code == 2
    assert re.search(sentence, told.stderr)
    assert not list(tmp_path.iterdir())


def test_a_prompt_that_is_too_long_is_2(tmp_path: Path) -> None:
    told = mcc("run", "-", data_dir=tmp_path, given="x" * 200_001)
    assert told.code == 2
    assert "200000" in told.stderr.replace(",", "").replace("_", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["orders", "list"],
        ["drones"],
        ["sessions", "list", "--json"],
        ["run", "hello", "--detach"],
        ["run", "hello", "--url", "http://127.0.0.1:1"],
        ["orders", "watch", "0190c9a2-0000-7000-8000-000000000000"],
    ],
    ids=" ".join,
)
def test_without_a_service_it_is_3(arguments: Sequence[str], tmp_path: Path) -> None:
    told = mcc(*arguments, data_dir=tmp_path)
    assert told.code == 3
    assert told.stdout == ""
    assert "mcc up" in told.stderr or "127.0.0.1:1" in told.stderr


def test_a_setting_that_cannot_be_used_is_a_sentence_and_2(tmp_path: Path) -> None:
    told = mcc("config", "show", data_dir=tmp_path, MCC_PORT="many")
    assert told.code == 2
    assert "MCC_PORT" in told.stderr
    assert "Traceback" not in told.stderr


def test_config_show_masks_what_is_secret(tmp_path: Path) -> None:
    secret = "s" * 40
    told = mcc("config", "show", "--json", data_dir=tmp_path, MCC_TOKEN=secret, MCC_REDIS_URL="redis://u:pw123@h:1/0")
    shown = json.loads(told.stdout)
    assert shown["data_dir"] == str(tmp_path)
    assert secret not in told.stdout
    assert "pw123" not in told.stdout


def test_db_upgrade_says_whether_there_was_anything_to_do(tmp_path: Path) -> None:
    first, second = (mcc("db", "upgrade", "--json", data_dir=tmp_path / "new") for _ in range(2))
    assert json.loads(first.stdout)["changed"] is True
    assert json.loads(second.stdout)["changed"] is False


def test_an_old_schema_is_refused_by_serve_with_what_to_do(tmp_path: Path) -> None:
    told = mcc_process("serve", "--port", "0", data_dir=tmp_path)
    assert told.code == 3
    assert "mcc db upgrade" in told.stderr


class Worker:
    """A minimal drone: claims each queued order and ends it with `outcome`."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store = store
        self.incarnation = fresh_id()
        self.outcome = OrderOutcome(status=OrderStatus.SUCCEEDED, answer=NASTY)
        self.idle = threading.Event()
        self._over = threading.Event()
        store.leases.register(
            Registration(
                incarnation=self.incarnation,
                name="tiny",
                pid=1,
                host="here",
                version="0",
                queues=("default",),
                slots=1,
                agents=(Capability(name="master", description="does it"),),
                tools=(Capability(name="count_words", group="workspace_read"),),
                models=(Capability(name="offline"), Capability(name="fast", problem="it needs a key")),
                workspace_roots=(str(root),),
            ),
            lease_seconds=600,
        )
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(0.02):
            if self.idle.is_set():
                continue
            for found in self.store.claims.claimable(["default"], 5):
                held = self.store.claims.claim(
                    found.order_id, incarnation=self.incarnation, claim_token=fresh_id(), drone="tiny"
                )
                if held is not None:
                    self._finish(held)

    def _finish(self, held: Claim) -> None:
        outcome = self.outcome
        fact = OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail)
        drafts = [Draft(at=now(), origin=ORDER, data=fact)]
        self.store.claims.finish(
            Ending(held.order.id, held.epoch, held.last_seq, held.control_seq, drafts, outcome, None)
        )


@dataclass(frozen=True)
class Service:
    url: str
    data_dir: Path
    workspace: Path
    worker: Worker

    def mcc(self, *arguments: str, **more: str) -> Done:
        return mcc(*arguments, data_dir=self.data_dir, cwd=self.workspace, **{"MCC_URL": self.url, **more})


@contextmanager
def serving(data_dir: Path) -> Iterator[str]:
    """`mcc serve` without a Redis; yields its address."""
    command = [*MCC, "serve", "--port", "0"]
    env = environment(data_dir, MCC_REDIS_URL=f"unix://{data_dir}/nobody.sock")
    with popen.Popen(command, stderr=subprocess.PIPE, text=True, env=env, cwd=data_dir) as process:
        assert process.stderr is not None
        seen = []
        try:
            for line in process.stderr:
                seen.append(line)
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    break
            else:
                pytest.fail("mcc serve ended: " + "".join(seen))
            drain = threading.Thread(target=process.stderr.read, daemon=True)
            drain.start()
            yield found[0]
        finally:
            process.terminate()
            process.wait(10)
            drain.join()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("service")
    assert mcc("db", "upgrade", data_dir=data_dir).code == 0
    store = open_store(f"sqlite:///{data_dir / 'mcc.db'}")
    workspace = tmp_path_factory.mktemp("workspace")
    worker = Worker(store, workspace)
    with serving(data_dir) as url:
        yield Service(url, data_dir, workspace, worker)
    worker.close()
    store.close()


def test_run_follows_in_plain_lines_and_ends_with_a_harmless_answer(service: Service) -> None:
    told = mcc_process("run", "hello", data_dir=service.data_dir, cwd=service.workspace, MCC_URL=service.url)
    assert told.code == 0
    assert "queued on default" in told.stderr
    assert "order claimed by tiny" in told.stderr
    assert told.stdout == SEEN
    assert "\x1b" not in told.stdout + told.stderr


def test_quietly_run_prints_the_answer_and_nothing_else(service: Service) -> None:
    told = service.mcc("run", "hello", "--quiet")
    assert (told.code, told.stdout, told.stderr) == (0, SEEN, "")


def test_run_json_is_the_journal_and_then_the_order(service: Service) -> None:
    told = service.mcc("run", "hello", "--json", "--label", "a", "--limit", "rounds=3", "--limit", "cost_usd=0.5")
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["entry", "entry", "entry", "order"]
    assert [line["kind"] for line in lines[:-1]] == ["order.queued", "order.claimed", "order.finished"]
    assert [line["seq"] for line in lines[:-1]] == [1, 2, 3]
    order = lines[-1]
    assert (order["status"], order["labels"], order["answer"]) == ("succeeded", ["a"], NASTY)
    assert (order["limits"]["rounds"], order["limits"]["cost_usd"]) == (3, 0.5)
    assert order["workspace"] == str(service.workspace.resolve())


def test_run_json_final_is_the_order_alone(service: Service) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    arguments = ("--json=final", "--schema", schema, "--rule", "result.n > 1", "--not-before", "2020-01-31T12:00Z")
    (line,) = service.mcc("run", *arguments, "--", "--json").stdout.splitlines()
    order = json.loads(line)
    assert (order["type"], order["prompt"], order["result_schema"]) == ("order", "--json", json.loads(schema))
    assert [rule["cel"] for rule in order["rules"]] == ["result.n > 1"]
    assert order["not_before"] == "2020-01-31T12:00:00Z"


def test_run_continue_goes_on_with_the_last_session_of_the_workspace(service: Service) -> None:
    first, _, third = (
        json.loads(service.mcc("run", "hello", "--json=final", "--idempotency-key", key, *more).stdout)
        for key, more in (("k1", ()), ("k1", ()), ("k3", ("--continue",)))
    )
    assert (third["session_id"], third["session_seq"]) == (first["session_id"], 2)
    below = service.workspace / "below"
    below.mkdir()
    nothing = service.mcc("run", "hello", "--continue", "--workspace", str(below))
    assert nothing.code == 2 and f"no earlier order worked in {below}" in nothing.stderr


def test_run_is_1_when_the_order_fails_and_says_why(service: Service) -> None:
    before = service.worker.outcome
    service.worker.outcome = OrderOutcome(
        status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, detail="401: the key is \x1b[1mwrong"
    )
    told = service.mcc("run", "hello")
    service.worker.outcome = before
    assert told.code == 1
    assert "failed (model_error): 401: the key is ⟦U+001B⟧[1mwrong" in told.stderr
    assert (told.stdout + told.stderr).count("the key is ") == 1
    assert "\x1b" not in told.stdout + told.stderr


def test_an_order_that_is_followed_may_ask_and_one_that_is_left_may_not(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "may.toml"
    file.write_text('[permission]\nrun_shell = [{when = "parts > 1", then = "deny"}, {then = "ask"}]\n')
    said = service.mcc("run", "hello", "--json=final", "--mode", "plan", "--permission", str(file)).stdout
    followed = json.loads(said.splitlines()[-1])
    assert (followed["mode"], followed["on_ask"]) == ("plan", "wait")
    assert [rule["then"] for rule in followed["permission"]["run_shell"]] == ["deny", "ask"]
    left = service.mcc(
        "run",
        "hello",
        "--detach",
        "--permission",
        '{"git_*": "ask"}',
        "--egress",
        "example.org",
        "--egress",
        "b.org:443",
    ).stdout.strip()
    shown = service.mcc("orders", "show", left).stdout
    assert re.search(r"hosts +example.org, b.org:443", shown)
    assert re.search(r"asks a person +no", shown) and re.search(r"permission +git_\*: ask", shown)
    asking = service.mcc("run", "hello", "--detach", "--on-ask", "wait").stdout.strip()
    assert json.loads(service.mcc("orders", "show", asking, "--json").stdout)["on_ask"] == "wait"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mode", "paln"), "mode"),
        (("--egress", "https://example.org/x"), "egress.0: Input should be a host, such as docs.python.org"),
        (("--on-ask", "hang"), "on_ask"),
        (("--permission", '{"run_shell": "aks"}'), "permission.run_shell"),
        (("--permission", '{"run_shell": [{"when": "argv[0] = 1", "then": "deny"}]}'), "run_shell[0].when"),
        (("--permission", "/nowhere.json"), "cannot be read"),
        (("--permission", "edit_file=ask"), """such as '{"run_shell": "ask"}'"""),
    ],
)
def test_permission_that_cannot_be_used_is_refused(service: Service, options: tuple[str, str], said: str) -> None:
    refused = service.mcc("run", "hello", *options)
    assert refused.code == 2 and said in refused.stderr


@pytest.mark.parametrize("group", ["orders", "sessions", "documents", "agents", "tools", "notes", "grants"])
def test_a_group_of_commands_is_its_list_where_no_further_word_is_said(service: Service, group: str) -> None:
    alone, listed = service.mcc(group), service.mcc(group, "list")
    assert (alone.code, alone.stdout) == (0, listed.stdout) and alone.stdout


def test_detach_prints_the_id_which_the_other_commands_take(service: Service) -> None:
    order_id = service.mcc("run", "hello", "--detach").stdout.strip()
    assert service.mcc("orders", "watch", order_id).code == 0
    shown = service.mcc("orders", "show", order_id)
    assert re.search(r"status +succeeded", shown.stdout)
    assert "\x1b" not in shown.stdout
    assert json.loads(service.mcc("orders", "show", order_id, "--json").stdout)["id"] == order_id
    table = service.mcc("orders", "list").stdout
    assert order_id in table
    assert table.splitlines()[0].split() == ["ID", "STATUS", "CREATED", "TIME", "COST", "AGENT", "DRONE", "PROMPT"]
    listed = json.loads(service.mcc("orders", "list", "--json", "--limit", "1").stdout)
    assert set(listed) == {"items", "next_cursor"}


def test_an_order_is_named_by_either_end_of_its_id_or_as_the_last(service: Service) -> None:
    first, last = (service.mcc("run", "hello", "--detach").stdout.strip() for _ in range(2))
    for named in (first[-12:], first[-4:].upper(), first[:-2], first):
        assert json.loads(service.mcc("orders", "show", named, "--json").stdout)["id"] == first
    assert json.loads(service.mcc("orders", "show", "@last", "--json").stdout)["id"] == last
    several = service.mcc("orders", "show", last[:4])
    assert several.code == 2 and last in several.stderr and first in several.stderr
    nobody = service.mcc("orders", "cancel", "ffffffff")
    assert nobody.code == 1 and "No order's id begins or ends with ffffffff" in nobody.stderr
    short = service.mcc("orders", "show", last[-3:])
    assert short.code == 2 and "@last" in short.stderr


def test_controls_are_answered_with_a_receipt_and_a_cancelled_order_is_1(service: Service) -> None:
    service.worker.idle.set()
    try:
        order_id = service.mcc("run", "hello", "--detach").stdout.strip()
        told = service.mcc("orders", "cancel", order_id, "--reason", "enough", "--json")
        assert json.loads(told.stdout)["id"]
        watched = service.mcc("orders", "watch", order_id)
    finally:
        service.worker.idle.clear()
    assert watched.code == 1
    assert "order cancelled" in watched.stderr
    again = service.mcc("orders", "cancel", order_id)
    assert again.code == 1
    assert again.stderr.startswith("mcc: ")


def test_what_only_reads_does_so_without_a_service(service: Service) -> None:
    order = json.loads(service.mcc("run", "hello", "--json=final").stdout)
    asked = [
        ("orders", "list", "--limit", "3"),
        ("orders", "show", order["id"][-8:]),
        ("orders", "watch", "@last"),
        ("sessions", "list", "--limit", "2"),
        ("sessions", "show", order["session_id"]),
    ]
    for command in asked:
        there = service.mcc(*command, "--json")
        here = mcc(*command, "--json", data_dir=service.data_dir)
        assert (here.code, here.stdout) == (there.code, there.stdout) and there.code == 0
        assert "this is what the database says" in here.stderr
    assert mcc("orders", "show", "@last", data_dir=service.data_dir).stdout.endswith("[bold]kept[/bold]\n")
    none = mcc("orders", "record", "@last", data_dir=service.data_dir)
    assert none.code == 1 and "has no record" in none.stderr
    unknown = mcc("orders", "show", fresh_id(), data_dir=service.data_dir)
    assert unknown.code == 1 and "there is no order" in unknown.stderr
    changing = mcc("orders", "cancel", order["id"], data_dir=service.data_dir)
    assert changing.code == 3 and "mcc up" in changing.stderr


def test_an_order_that_nobody_goes_on_with_is_not_watched_for_ever(service: Service) -> None:
    service.worker.idle.set()
    try:
        order_id = service.mcc("run", "hello", "--detach").stdout.strip()
        told = mcc("orders", "watch", order_id, data_dir=service.data_dir)
        service.mcc("orders", "cancel", order_id)
    finally:
        service.worker.idle.clear()
    assert told.code == 1 and "This order is queued, and nobody goes on with it" in told.stderr


def test_who_waits_for_a_control_is_told_what_became_of_it(service: Service) -> None:
    service.worker.idle.set()
    try:
        order_id = service.mcc("run", "hello", "--detach").stdout.strip()
        nothing = service.mcc("orders", "steer", order_id)
        unheard = service.mcc("orders", "steer", order_id, "x", "--record", fresh_id(), "--redirect", "--wait")
        asked = service.mcc("orders", "steer", order_id, "--remove-tool", "run_shell", "--remove-tool", "git_add")
        ended = service.mcc("orders", "cancel", order_id, "--wait")
        kept = json.loads(service.mcc("orders", "cancel", order_id, "--wait", "--json").stdout or "null")
    finally:
        service.worker.idle.clear()
    assert nothing.code == 2 and "a steer needs a message" in nothing.stderr
    assert unheard.code == 1 and "steer refused: " in unheard.stderr
    assert asked.code == 0 and asked.stdout.startswith("steer requested at ")
    assert ended.code == 0 and re.fullmatch(r"cancel applied at entry \d+\n", ended.stdout)
    assert kept is None, "an order that is over takes no request"


def test_metadata_is_set_from_the_command_line_and_what_an_order_does_not_take_is_refused(service: Service) -> None:
    service.worker.idle.set()
    try:
        told = ("run", "hello", "--metadata", "ticket=OPS-17", "--metadata", "tries=1", "--control", "set_metadata")
        order_id = service.mcc(*told, "--detach").stdout.strip()
        placed = json.loads(service.mcc("orders", "show", order_id, "--json").stdout)
        shown = service.mcc("orders", "show", order_id).stdout
        asked = service.mcc("orders", "set-metadata", order_id, 'by={"a": 1}', "word=two", "--unset", "tries")
        wrong = service.mcc("orders", "set-metadata", order_id, "word")
        nothing = service.mcc("orders", "set-metadata", order_id)
        refused = service.mcc("orders", "steer", order_id, "Hurry.")
        (control,) = service.worker.store.controls.of_order(order_id)
        service.mcc("orders", "cancel", order_id)
    finally:
        service.worker.idle.clear()
    assert (placed["metadata"], placed["controls"]) == ({"ticket": "OPS-17", "tries": 1}, ["set_metadata"])
    assert '{"ticket": "OPS-17", "tries": 1}' in shown and "set_metadata" in shown
    assert asked.code == 0 and asked.stdout.startswith("set-metadata requested at ")
    assert control.metadata == {"by": {"a": 1}, "word": "two", "tries": None}
    assert wrong.code == nothing.code == 2 and "key=value" in wrong.stderr
    assert refused.code != 0 and "takes no steer" in refused.stderr


def test_ctrl_c_detaches_and_says_how_to_watch_again(service: Service) -> None:
    service.worker.idle.set()
    env = environment(service.data_dir, MCC_URL=service.url)
    with popen.Popen(
        [*MCC, "run", "hello"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        cwd=service.workspace,
    ) as process:
        try:
            assert process.stderr is not None
            assert "queued" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=20)
        finally:
            service.worker.idle.clear()
            process.kill()
    assert process.wait() == 130
    found = re.search(r"mcc orders watch (\S+)$", told, re.MULTILINE)
    assert found is not None
    assert service.mcc("orders", "watch", found[1]).code == 0


def test_an_unknown_order_is_1_and_a_workspace_outside_is_2(service: Service) -> None:
    unknown = service.mcc("orders", "show", "0190c9a2-0000-7000-8000-000000000000")
    assert unknown.code == 1
    outside = service.mcc("run", "hello", "--workspace", "/etc")
    assert outside.code == 2
    assert "MCC_WORKSPACE_ROOTS" in outside.stderr
    nobody = service.mcc("run", "hello", "--agent", "mastr")
    assert nobody.code == 2
    assert "master" in nobody.stderr


@contextmanager
def family_at(url: str, data_dir: Path) -> Iterator[None]:
    """Make this process hold the data directory as a family whose service is at this address."""
    (data_dir / "run").mkdir(mode=0o700, exist_ok=True)
    hold = Hold.take(data_dir)
    try:
        hold.publish(Presence(url, os.getpid(), None, "2026-01-31T12:00:00Z"))
        yield
    finally:
        hold.release()


def test_run_adds_its_directory_to_this_users_own_family_and_says_so(service: Service, tmp_path: Path) -> None:
    own = str(service.data_dir / "run")
    with family_at(service.url, service.data_dir):
        told = mcc("run", "hello", data_dir=service.data_dir, cwd=tmp_path)
        again = mcc("run", "hello", data_dir=service.data_dir, cwd=tmp_path)
        private = mcc("run", "hello", "--workspace", own, data_dir=service.data_dir)
    assert (told.code, again.code) == (0, 0)
    assert f"Orders may work in {tmp_path} too now, until `mcc down`" in told.stderr
    assert "may work in" not in again.stderr
    assert private.code == 2 and "MCC's own data" in private.stderr


def test_another_service_is_not_given_a_directory_but_the_command_is_told(service: Service, tmp_path: Path) -> None:
    with family_at("http://127.0.0.1:1", service.data_dir):
        told = service.mcc("run", "hello", "--workspace", str(tmp_path))
    assert told.code == 2 and f"mcc up --workspace {tmp_path}" in told.stderr


def test_a_wrong_token_is_told_with_where_the_right_one_belongs(service: Service) -> None:
    told = service.mcc("orders", "list", MCC_TOKEN="w" * 40)
    assert told.code == 1
    assert f"This token is not the right one (see {service.data_dir}/token" in told.stderr
    assert "MCC_TOKEN" in told.stderr
    none = mcc("orders", "list", "--url", service.url, data_dir=service.data_dir / "other")
    assert none.code == 1 and "There is no token" in none.stderr


def test_the_address_of_the_api_is_as_good_as_that_of_its_service(service: Service) -> None:
    for below in ("/api/v1", "/api/v1/", "/api/docs"):
        assert service.mcc("orders", "list", "--url", service.url + below).code == 0


def test_a_page_at_the_address_is_told_as_one() -> None:
    with pytest.raises(Unreachable, match="http://here answers with a page"):
        result_of(get_order("x"), 200, b" <!doctype html>", "http://here")


def test_sessions_are_opened_listed_and_shown(service: Service) -> None:
    session_id = service.mcc("sessions", "new", "Notes").stdout.strip()
    assert service.mcc("run", "one", "--session", session_id).code == 0
    shown = json.loads(service.mcc("sessions", "show", session_id, "--json").stdout)
    assert (shown["title"], [order["prompt"] for order in shown["orders"]]) == ("Notes", ["one"])
    assert session_id in service.mcc("sessions", "list").stdout
    for named in ("@last", session_id[:13], session_id[-8:]):
        assert json.loads(service.mcc("sessions", "show", named, "--json").stdout)["id"] == session_id
        listed = json.loads(service.mcc("orders", "list", "--session", named, "--json").stdout)["items"]
        assert {one["session_id"] for one in listed} == {session_id}
    assert service.mcc("run", "two", "--session", "@last").code == 0
    assert json.loads(service.mcc("sessions", "show", session_id, "--json").stdout)["turns"] == 2
    assert "one" in service.mcc("sessions", "show", session_id).stdout


MISTAKEN_FORKS = [
    (("--after", "0"), "after: Input should be greater than or equal to 1"),
    ((" ", "--after", "1"), "prompt: Input is blank: say what the master shall hear next, or leave it out"),
]


def test_an_order_is_retried_forked_and_rolled_back(service: Service) -> None:
    order_id = service.mcc("run", "hello", "--detach").stdout.strip()
    assert service.mcc("orders", "watch", order_id).code == 0
    retried = service.mcc("orders", "retry", order_id)
    assert retried.code == 0 and retried.stderr.startswith("placed as turn 2 of session ")
    shown = service.mcc("orders", "show", retried.stdout.strip())
    assert re.search(rf"made from +retry of {order_id}", shown.stdout)
    forked = service.mcc("orders", "fork", order_id, "something else", "--after", "2")
    assert forked.code == 0
    assert f"Begins with entries 1 to 2 of order {order_id}. No agent had begun by then" in forked.stderr
    assert "fork of" in service.mcc("orders", "show", forked.stdout.strip()).stdout
    whole = json.loads(service.mcc("orders", "fork", order_id, "--json").stdout)
    assert whole["origin"]["after"] == 3
    beyond = service.mcc("orders", "fork", order_id, "--after", "99")
    assert beyond.code == 2 and "there is no entry 99" in beyond.stderr
    for mistake, sentence in MISTAKEN_FORKS:
        told = service.mcc("orders", "fork", order_id, *mistake)
        assert (told.code, told.stderr) == (2, f"mcc: {sentence}\n")
    assert service.mcc("orders", "watch", retried.stdout.strip()).code == 0
    rolled_back = service.mcc("orders", "rollback", order_id)
    assert rolled_back.code == 0 and rolled_back.stdout.startswith("turn 1 of session ")
    assert json.loads(service.mcc("orders", "rollback", order_id, "--json").stdout)["left_out"] is True
    session = json.loads(service.mcc("orders", "show", order_id, "--json").stdout)["session_id"]
    assert "succeeded, rolled back" in service.mcc("sessions", "show", session).stdout
    assert re.search(r"rolled back +yes", service.mcc("orders", "show", order_id).stdout)


def test_an_order_that_has_not_ended_is_neither_retried_nor_rolled_back(service: Service) -> None:
    service.worker.idle.set()
    try:
        order_id = service.mcc("run", "hello", "--detach").stdout.strip()
        told = [service.mcc("orders", what, order_id) for what in ("retry", "rollback")]
        service.mcc("orders", "cancel", order_id)
    finally:
        service.worker.idle.clear()
    assert [one.code for one in told] == [1, 1]
    assert all("cancel it first" in one.stderr for one in told)


@pytest.mark.parametrize("what", ["drones", "agents", "models"])
def test_what_is_there_is_listed_as_table_and_as_json(what: str, service: Service) -> None:
    items = json.loads(service.mcc(what, "--json").stdout)["items"]
    table = service.mcc(what).stdout
    assert items
    assert all(item["name"] in table for item in items)


def test_agents_of_the_workspace_are_listed_and_shown_where_it_lies(service: Service, tmp_path: Path) -> None:
    agents = tmp_path / ".mcc" / "agents"
    agents.mkdir(parents=True)
    text = "---\nname: clerk\ndescription: Keeps the books.\ntools: [read_file]\n---\nYou are a clerk.\n"
    (agents / "clerk.md").write_text(text)

    def here(*words: str, at: Path = tmp_path) -> str:
        return mcc("agents", *words, data_dir=service.data_dir, cwd=at, MCC_URL=service.url).stdout

    items = {one["name"]: one for one in json.loads(here("--json"))["items"]}
    assert items["clerk"]["agent"]["origin"] == "workspace" and "master" in items
    assert "Keeps the books." in here("list")
    shown = here("show", "clerk")
    assert "You are a clerk." in shown and re.search(r"origin +workspace", shown)
    assert "clerk" not in here("list", at=tmp_path.parent)

    (agents / "clerk.md").write_text(text.replace("read_file", "count_words"))
    assert "count_words" in here("show", "clerk") and "all is well" in here("check", ".mcc/agents/clerk.md")
    (agents / "clerk.md").write_text(text.replace("read_file", "count_sheep"))
    assert "there is no tool or group 'count_sheep'" in here("check", ".mcc/agents/clerk.md")


def test_a_problem_with_a_model_is_shown(service: Service) -> None:
    assert "it needs a key" in service.mcc("models").stdout


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 1)])
def test_the_exit_code_of_the_doctor_says_whether_anything_is_broken(tmp_path: Path, broken: bool, code: int) -> None:
    upgrade_database(f"sqlite:///{tmp_path / 'mcc.db'}")
    more = {"MCC_REDIS_URL": f"unix://{tmp_path}/nobody.sock"} if broken else {}
    told = mcc("doctor", "--json", "--seconds", "0.5", data_dir=tmp_path, cwd=tmp_path, **more)
    assert told.code == code
    assert json.loads(told.stdout)["ok"] is not broken
