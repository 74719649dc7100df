"""Packs published modules into `mcc/console/vendor`: verified by integrity, imports made relative, licences beside."""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "mcc" / "console" / "vendor"
LISTING = "vendor.json"

FETCH_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Package:
    """A published package and what is taken of it: `modules` maps paths in it to names in the page.

    `integrity`: SHA-512 of the packed package in base64, as registries publish it.
    """

    name: str
    version: str
    integrity: str
    licence: str
    modules: Mapping[str, str]


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        "MIT",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"},
    ),
)


class NotThePackage(Exception):
    """What was fetched is not the package that is pinned."""


def packed_integrity(packed: bytes) -> str:
    """SHA-512 in base64, as registries publish it."""
    return base64.b64encode(hashlib.sha512(packed).digest()).decode()


def as_page_module(source: str) -> str:
    """The module as a browser takes it without an import map, which our Content-Security-Policy forbids: its import of
    preact names the file beside it. Source maps are not shipped, so the line that names one goes."""
    source = source.replace('from"preact"', 'from"./preact.js"')
    lines = (line for line in source.splitlines() if not line.startswith("//# sourceMappingURL="))
    return "\n".join(lines).rstrip() + "\n"


def fetched(package: Package, place: Path) -> Path:
    """The packed package in `place`. Raises `NotThePackage`, and `CalledProcessError` when it cannot be had."""
    subprocess.run(
        ("npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"),
        cwd=place,
        check=True,
        capture_output=True,
        timeout=FETCH_SECONDS,
    )
    (packed,) = place.glob("*.tgz")
    if packed_integrity(packed.read_bytes()) != package.integrity:
        raise NotThePackage(f"{package.name} {package.version} is not what was pinned")
    return packed


def pack(package: Package, packed: Path, into: Path) -> list[dict[str, str]]:
    """Write the modules and the licence of a packed package; what the listing says of each module."""
    listed: list[dict[str, str]] = []
    with tarfile.open(packed) as archive:

        def read(name: str) -> str:
            file = archive.extractfile(f"package/{name}")
            assert file is not None, name
            return file.read().decode("utf-8")

        (into / f"{package.name}.LICENSE.txt").write_text(read("LICENSE"), "utf-8")
        for path, name in package.modules.items():
            module = as_page_module(read(path)).encode()
            (into / name).write_bytes(module)
            listed.append(
                {
                    "name": package.name,
                    "version": package.version,
                    "license": package.licence,
                    "integrity": f"sha512-{package.integrity}",
                    "file": name,
                    "sha256": hashlib.sha256(module).hexdigest(),
                }
            )
    return listed


def main() -> int:
    VENDOR.mkdir(parents=True, exist_ok=True)
    listed: list[dict[str, str]] = []
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                packed = fetched(package, Path(scratch))
            except (NotThePackage, OSError, subprocess.SubprocessError) as problem:
                print(f"Nothing was packed of {package.name}: {problem}", file=sys.stderr)
                return 1
            listed += pack(package, packed, VENDOR)
    (VENDOR / LISTING).write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
