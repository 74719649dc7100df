"""Campaigns are named once, drawn from seeds, told with their replay; their figures stand beside targets."""

import json
import sqlite3
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path

import psycopg
import pytest

from mcc.store.database.migrate import upgrade
from tests.faults.__main__ import main
from tests.faults.bad_calls import BAD, ENDLESS, GIVES_UP, TIMES, bad_prompt, bad_step
from tests.faults.campaigns.catalog import CAMPAIGNS, LEFT_OUT
from tests.faults.campaigns.database import OF_OWN_SERVER, own_server
from tests.faults.campaigns.drones import OF_DRONES
from tests.faults.campaigns.keeping import KEPT, keep_database
from tests.faults.campaigns.running import Wish, replay, run
from tests.faults.campaigns.tally import Tally, read_back, table
from tests.faults.campaigns.tiers import conclude, rounds
from tests.faults.hand_made import Run, make_run
from tests.faults.plan import POSTGRES, Plan
from tests.faults.postgres import NoPostgres, Postgres
from tests.faults.services import REDIS_SERVER, own_database


def test_every_campaign_says_what_it_does_and_every_omission_why() -> None:
    assert all(campaign.act.__doc__ for campaign in CAMPAIGNS.values())
    assert all(LEFT_OUT.values())


def test_a_round_of_chaos_takes_every_campaign_and_the_next_one_the_other_database() -> None:
    first, second = (list(islice(rounds(7), start, start + len(CAMPAIGNS))) for start in (0, len(CAMPAIGNS)))
    assert [campaign.name for campaign, _, _ in first] == list(CAMPAIGNS)
    assert {seed for _, _, seed in first} == {7} and {seed for _, _, seed in second} == {8}
    both = {campaign.name for campaign in CAMPAIGNS.values() if len(campaign.databases) == 2}
    changed = {one[0].name for one, two in zip(first, second, strict=True) if one[1] != two[1]}
    assert changed == both


def test_the_command_that_replays_a_run_is_one_that_the_command_line_takes(capsys: pytest.CaptureFixture[str]) -> None:
    wish = Wish(whole=True, judge_times=True, seconds=3.0, lease_seconds=4.0)
    told = replay(CAMPAIGNS["C6"], 17, "postgres", wish)
    assert told == (
        "python -m tests.faults run C6 --database postgres --seed 17 --all --judge-times --seconds 3 --lease 4"
    )
    with pytest.raises(SystemExit) as ended:
        main([*told.split()[3:], "--help"])
    assert ended.value.code == 0
    assert "--judge-times" in capsys.readouterr().out


def test_the_list_names_all_campaigns_and_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert all(campaign.title in said for campaign in CAMPAIGNS.values())
    assert all(why in said for why in LEFT_OUT.values())


def test_tables_put_figures_of_all_runs_beside_their_targets(tmp_path: Path) -> None:
    good = Tally("C1", 1, "sqlite", 10.0, 2.0, orders=20, takeovers=[1.5, 2.5, 4.0], faults={"kill9": 3})
    bad = Tally("C1", 2, "postgres", 9.0, 2.0, problems=["I1 x: y"], orders=5, overshoot_calls=0.25, lost=1)
    skipped = Tally("C10", 1, "sqlite", skipped="no small disk can be mounted here")
    bad.missing["clocks that jump"] = "there is no libfaketime"
    told = table([good, bad, skipped])
    (takeover,) = (line.split() for line in told.splitlines() if "takeover, lease 2 s, p99" in line)
    assert takeover[5:] == ["4.00", "s", "≤", "5", "s", "3"]
    (lost,) = (line.split() for line in told.splitlines() if "accepted orders lost" in line)
    assert lost[3:] == ["1", "0", "25", "orders"]
    assert "no small disk" in told and "0.25" in told and "no libfaketime" in told
    assert conclude([good, skipped]) == 0
    assert conclude([good, bad]) == 1
    lines = [one.line for one in (good, bad, skipped)]
    assert read_back(lines) == [good, bad, skipped]


def test_a_kept_run_brings_its_postgresql_along(tmp_path: Path) -> None:
    try:
        with own_database("postgres", tmp_path, POSTGRES) as url:
            with psycopg.connect(url, autocommit=True) as link:
                link.execute("CREATE TABLE orders (id text, number bigint, flag boolean, missing text)")
                link.execute("INSERT INTO orders VALUES ('a', 7, true, NULL)")
            (tmp_path / "run.json").write_text(json.dumps({"database_url": url, "seed": 3}))
            keep_database(tmp_path)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers: {str(error).splitlines()[0]}")
    run_said = json.loads((tmp_path / "run.json").read_text())
    assert run_said == {"database_url": f"sqlite:///{KEPT}", "seed": 3}
    assert sqlite3.connect(tmp_path / KEPT).execute("SELECT * FROM orders").fetchall() == [("a", 7, 1, None)]


def test_kept_evidence_is_judged_again_wherever_it_is_moved_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, file = tmp_path / "kept", tmp_path / "kept" / "private" / "mcc.db"
    file.parent.mkdir(parents=True)
    upgrade(f"sqlite:///{file}")
    run_ = make_run(kept, f"sqlite:///{file}")
    keep_database(kept)
    kept.rename(tmp_path / "moved")
    assert main(["check", str(tmp_path / "moved")]) == 0
    assert "3 orders, no violation" in capsys.readouterr().out
    moved = Run(tmp_path / "moved", f"sqlite:///{tmp_path / 'moved' / 'private' / 'mcc.db'}")
    moved.sql("DELETE FROM journal WHERE order_id = :order AND seq = 4", order=run_.taken)
    assert main(["check", str(tmp_path / "moved")]) == 1
    moved.say(promises=["I1"])
    assert main(["check", str(tmp_path / "moved")]) == 0


def test_harm_to_a_server_is_left_out_with_its_reason_where_no_server_can_be_made(tmp_path: Path) -> None:
    def none() -> AbstractContextManager[Postgres]:
        raise NoPostgres("there is no initdb")

    with own_server(tmp_path, Plan(database="postgres"), none) as ground:
        assert ground.plan.server == POSTGRES
        assert ground.missing == dict.fromkeys(OF_OWN_SERVER, "there is no initdb")
    with own_server(tmp_path, Plan(database="sqlite"), none) as ground:
        assert not ground.missing


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_model_that_calls_wrongly_gives_up_unless_it_is_one_of_the_endless(name: str) -> None:
    messages = [{"role": "user", "content": bad_prompt(name)}]
    first = bad_step({"messages": messages})
    assert first is not None and (first.calls or name == "empty")
    later = bad_step({"messages": messages + [{"role": "assistant", "content": ""}] * TIMES})
    assert later is not None
    assert (later.text == GIVES_UP) == (name not in ENDLESS)


def test_failing_places_of_drones_are_all_but_those_of_services_and_of_handing_back() -> None:
    assert len(OF_DRONES) == 20


@pytest.mark.family
@pytest.mark.group("outages")
@pytest.mark.skipif(REDIS_SERVER is None, reason="neither redis-server nor valkey-server is on PATH")
@pytest.mark.parametrize(("name", "database"), [("C19", "sqlite"), ("C8", "postgres")])
def test_some_campaigns_keep_every_promise(name: str, database: str, tmp_path: Path) -> None:
    try:
        tally, directory = run(
            CAMPAIGNS[name], 1, "postgres" if database == "postgres" else "sqlite", Wish(directory=tmp_path)
        )
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers: {str(error).splitlines()[0]}")
    assert tally.faults and not tally.problems, "\n".join([*tally.problems, f"evidence: {directory}"])
