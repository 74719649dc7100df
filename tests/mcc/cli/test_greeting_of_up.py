"""What `mcc up` prints first, and the unit of systemd that starts it."""

import configparser
import shlex
from pathlib import Path

import typer.main

from mcc.cli.main import app
from mcc.cli.up import _greeting

ROOT = Path(__file__).parents[3]


def test_all_of_it_fits_a_terminal_of_80_columns() -> None:
    home = Path.home()
    data_dir = home / ".local" / "share" / "mcc"
    told = {
        "api_url": "http://127.0.0.1:8420/api/v1",
        "docs_url": "http://127.0.0.1:8420/api/docs",
        "flower_url": "http://127.0.0.1:5555",
        "data_dir": str(data_dir),
        "token_file": str(data_dir / "token"),
        "logs": str(data_dir / "logs"),
        "redis": "embedded, on a private socket",
        "drones": 1,
        "workspace_roots": [str(home / "project"), "/srv/other"],
    }
    lines = _greeting(told, "Stop with: mcc down").splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split() == ["Works", "in", "~/project"] for line in lines)
    assert any(line.split() == ["/srv/other"] for line in lines)


def test_the_unit_of_systemd_starts_a_command_that_there_is() -> None:
    unit = configparser.ConfigParser(interpolation=None, delimiters="=")
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ROOT / "deploy" / "mcc.service")
    program, name, *options = shlex.split(unit["Service"]["ExecStart"])
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    assert Path(program).name == "mcc"
    assert {one for one in options if one.startswith("--")} <= {flag for one in command.params for flag in one.opts}
    assert unit["Service"]["KillMode"] == "mixed", "children are stopped by mcc up, in their order"
