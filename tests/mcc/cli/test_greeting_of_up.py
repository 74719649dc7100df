"""What `mcc up` prints first, and the unit of systemd that starts it."""

import configparser
import shlex
from pathlib import Path

import pytest
import typer.main

from mcc.cli.main import app
from mcc.cli.up import _drones, _greeting
from mcc.local.programs import drones_for
from mcc.resources import cores_here

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
        "cores": 8.0,
        "workspace_roots": [str(home / "project"), "/srv/other"],
    }
    lines = _greeting(told, "Stop with: mcc down").splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split() == ["Works", "in", "~/project"] for line in lines)
    assert any(line.split() == ["/srv/other"] for line in lines)
    assert "Drones    1  (8 cores; --drones auto starts one for each core)" in lines
    assert "Drones    7  (8 cores)" in _greeting({**told, "drones": 7}, "").splitlines()


@pytest.mark.parametrize("wanted", ["many", "-1", "101", "1.5", ""])
def test_a_number_of_drones_that_is_none_says_what_may_be_said(wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as refused:
        _drones(wanted)
    assert refused.value.exit_code == 2
    assert "say auto, or a number from 0 to 100" in capsys.readouterr().err
    assert _drones("0") == 0 and _drones("auto") == drones_for(cores_here())


def test_the_unit_of_systemd_starts_a_command_that_there_is() -> None:
    unit = configparser.ConfigParser(interpolation=None, delimiters="=")
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ROOT / "deploy" / "mcc.service")
    program, name, *options = shlex.split(unit["Service"]["ExecStart"])
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    assert Path(program).name == "mcc"
    assert {one for one in options if one.startswith("--")} <= {flag for one in command.params for flag in one.opts}
    assert unit["Service"]["KillMode"] == "mixed", "children are stopped by mcc up, in their order"
