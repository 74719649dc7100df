"""Code that installed packages offer is found where Python looks for packages at that moment."""

import sys
from pathlib import Path

from mcc.configuration.own_code import own_code


def offered() -> list[tuple[str, str]]:
    return [(code.name, code.origin) for code in own_code((), None, "mcc.tools")]


def test_a_package_is_found_once_it_is_on_the_path_and_no_longer(tmp_path: Path) -> None:
    before = offered()
    metadata = tmp_path / "orchard-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: orchard\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mcc.tools]\norchard = orchard.tools\n")
    sys.path.append(str(tmp_path))
    try:
        assert sorted(offered()) == sorted([*before, ("orchard.tools", "package orchard 1.0")])
    finally:
        sys.path.remove(str(tmp_path))
    assert offered() == before
