"""One run of a campaign: a family, the harm, the judgement, and the evidence if it went wrong."""

import random
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.faults.campaigns.ground import Ground
from tests.faults.campaigns.keeping import keep_database
from tests.faults.campaigns.stage import Campaign, Database, Skipped, Stage
from tests.faults.campaigns.tally import Tally, of_evidence
from tests.faults.checker import evidence_of, violations
from tests.faults.family import Family
from tests.faults.plan import Plan


@dataclass(frozen=True, slots=True)
class Wish:
    """How to run. `judge_times`: how long recovery took is a promise too (for a quiet machine); `lease_seconds` None:
    the campaign's own; `seconds`: for campaigns that have no end of their own; `keep` evidence of good runs too."""

    whole: bool = False
    judge_times: bool = False
    seconds: float = 20.0
    lease_seconds: float | None = None
    keep: bool = False
    directory: Path | None = None

    @property
    def arguments(self) -> str:
        """As on the command line; "" for what is the rule."""
        said = [" --all"] * self.whole + [" --judge-times"] * self.judge_times
        said += [f" --seconds {self.seconds:g}"] * (self.seconds != Wish().seconds)
        said += [] if self.lease_seconds is None else [f" --lease {self.lease_seconds:g}"]
        return "".join(said)


def replay(campaign: Campaign, seed: int, database: Database, wish: Wish) -> str:
    """The command that does the same again."""
    return f"python -m tests.faults run {campaign.name} --database {database} --seed {seed}{wish.arguments}"


def run(campaign: Campaign, seed: int, database: Database, wish: Wish) -> tuple[Tally, Path]:
    """One run; its tally, and where its evidence lies (or lay)."""
    made = tempfile.mkdtemp(prefix=f"faults-{campaign.name}-{database}-{seed}-", dir=wish.directory)
    directory = Path(made).absolute()
    tally = Tally(campaign.name, seed, database)
    began = time.monotonic()
    try:
        with campaign.around(directory, _plan(campaign, seed, database, wish)) as ground:
            _act(campaign, directory, ground, tally, wish)
    except Skipped as why:
        tally.skipped = str(why)
    tally.seconds = round(time.monotonic() - began, 1)
    if not tally.problems and not wish.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return tally, directory


def _plan(campaign: Campaign, seed: int, database: Database, wish: Wish) -> Plan:
    plan = campaign.plan
    if wish.lease_seconds is not None:
        plan = replace(plan, lease_seconds=wish.lease_seconds, renew_seconds=min(1.0, wish.lease_seconds / 5))
    links = [link for link in plan.links if database == "postgres" or not link.endswith("-pg")]
    judged: Mapping[str, object] = {
        "judge_times": wish.judge_times,
        "promises": list(campaign.promises),
        **plan.judged,
    }
    return replace(plan, database=database, seed=seed, campaign=campaign.name, links=links, judged=judged)


def _act(campaign: Campaign, directory: Path, ground: Ground, tally: Tally, wish: Wish) -> None:
    seed = ground.plan.seed
    with Family(ground.plan, directory) as family:
        stage = Stage(family, ground, seed, random.Random(f"{campaign.name} {seed}"), wish.seconds, wish.whole)
        stage.missing.update(ground.missing)
        try:
            campaign.act(stage)
        except Skipped:
            raise
        except Exception as broken:
            stage.problems.append(f"{type(broken).__name__}: {broken}"[:2_000])
        evidence = evidence_of(family.finish())
        tally.problems = [*stage.problems, *map(str, violations(evidence, campaign.promises))]
        tally.measured, tally.missing = dict(stage.measured), stage.missing
        of_evidence(tally, evidence, stage.without_redis)
        if tally.problems or wish.keep:
            keep_database(directory)
            (directory / "problems.txt").write_text("\n".join(tally.problems) + "\n")
