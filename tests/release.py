"""Make the files of a release in dist/, check them, and say what is left to do by hand.

    python -m tests.release

Nothing is tagged, signed or sent anywhere. docs/project/releasing.md tells how a release is made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
LARGEST = {".whl": 2_500_000, ".gz": 4_000_000}
"""Bytes of a wheel and of an sdist: about one and a half times what they are, so that pictures or
a database that slip in are noticed.
"""


class Refused(Exception):
    """What is wrong, in one line with what to do."""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return what a program prints; it is refused, with its last line, where it fails."""
    ended = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if ended.returncode:
        told = (ended.stdout + ended.stderr).strip().splitlines() or ["(it said nothing)"]
        name = " ".join(Path(str(word)).name for word in command[:4])
        raise Refused(f"{name} failed: {told[-1].strip()}")
    return ended.stdout


def version() -> str:
    """Return the version as riverui/__init__.py has it, without importing it."""
    told = re.search(r'^__version__ = "(.+)"$', (ROOT / "riverui/__init__.py").read_text(), re.M)
    if told is None:
        raise Refused('riverui/__init__.py has no line `__version__ = "…"`')
    return told[1]


def problems(number: str) -> Iterator[str]:
    """Yield what must be put right before anything is built, each in one line."""
    if run("git", "status", "--porcelain"):
        yield "the tree has changes that are not committed: see `git status`"
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", number):
        yield f"riverui/__init__.py: {number} is no version such as 1.2.3 or 1.2.3rc1"
    newest = re.search(
        r"^## \[(.+?)\](?: [-–] (.*))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )
    found = newest[1] if newest else "none"
    if found != number:
        yield (
            f"CHANGELOG.md: its newest section is {found}, riverui/__init__.py says {number}: "
            "make them the same"
        )
    else:
        try:
            if date.fromisoformat((newest and newest[2]) or "") > datetime.now(UTC).date():
                yield f"CHANGELOG.md: the date of [{number}] is yet to come"
        except ValueError:
            yield (
                f"CHANGELOG.md: [{number}] has no date: write "
                f"`## [{number}] – {datetime.now(UTC):%Y-%m-%d}`"
            )
    # The workflow that the tag starts makes the files once more.
    if tagged := run("git", "tag", "--list", f"v{number}", "--format=%(objectname)").strip():
        commit = run("git", "rev-parse", f"{tagged}^{{commit}}")
        if commit != run("git", "rev-parse", "HEAD"):
            yield (
                f"the tag v{number} is that of another commit: "
                "raise __version__ in riverui/__init__.py"
            )


def has_uv() -> bool:
    """Return whether uv works: a version manager's stand-in may be there without one behind it."""
    return bool(shutil.which("uv")) and not (
        subprocess.run(["uv", "--version"], capture_output=True, check=False).returncode
    )


def built(folder: Path) -> list[Path]:
    """Return the sdist and the wheel, built as their users build them from a clean clone of the
    last commit; the wheel out of the sdist must be that out of the clone, byte for byte.
    """
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    run("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), folder / "clone")
    build: list[str | Path] = [sys.executable, "-m", "build"]
    build += ["--installer", "uv"] if has_uv() else []
    run(*build, "--outdir", folder / "dist", folder / "clone", SOURCE_DATE_EPOCH=epoch)
    run(*build, "-w", "-o", folder / "again", folder / "clone", SOURCE_DATE_EPOCH=epoch)
    (wheel,) = (folder / "dist").glob("*.whl")
    compare(wheel, folder / "again" / wheel.name)
    return sorted((folder / "dist").iterdir())


def compare(wheel: Path, again: Path) -> None:
    """Refuse wheels that are not the same, byte for byte."""
    if wheel.read_bytes() != again.read_bytes():
        raise Refused("the wheel out of the sdist is not that out of the clone: compare them")


def too_large(files: list[Path]) -> Iterator[str]:
    """Yield the files that have grown beyond what they should be."""
    for file in files:
        if (size := file.stat().st_size) > (most := LARGEST[file.suffix]):
            yield (
                f"{file.name} has {size:,} bytes, more than {most:,}: "
                "look what slipped in, or raise LARGEST in tests/release.py"
            )


def vendored(listed: str) -> list[dict[str, Any]]:
    """Return the files of others that the wheel carries, out of the table in
    static/vendor/VERSIONS.md, as components of CycloneDX.
    """
    rows = re.findall(
        r"^\| `(.+?)` \|.*\| npm `(.+)@(.+?)`.*\| (.+?) \| `([0-9a-f]{64})` \|$", listed, re.M
    )
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{number}",
            "name": name,
            "version": number,
            "description": f"part of riverui, as static/{file}",
            "purl": f"pkg:npm/{name}@{number}",
            "licenses": [{"expression": licence}],
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for file, name, number, licence, digest in rows
    ]


def bill_of_materials(wheel: Path, folder: Path) -> dict[str, Any]:
    """Return what is installed with the wheel and nothing else, and what the wheel carries of
    others, in CycloneDX.
    """
    place = folder / "installed"
    python = place / "bin/python"
    venv.create(place, with_pip=True)
    run(python, "-m", "pip", "install", "--quiet", wheel)
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
    tool = Path(sys.executable).with_name("cyclonedx-py")
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    told = run(tool, "environment", "--output-reproducible", python, SOURCE_DATE_EPOCH=epoch)
    bill: dict[str, Any] = json.loads(told)
    (own,) = (each for each in bill["components"] if each["name"] == "riverui")
    # Where it was installed from is a folder that is gone.
    own = {key: value for key, value in own.items() if key not in ("externalReferences", "purl")}
    own["purl"] = f"pkg:pypi/riverui@{own['version']}"
    bill["metadata"]["component"] = own
    bill["components"] = [each for each in bill["components"] if each["name"] != "riverui"]
    with zipfile.ZipFile(wheel) as archive:
        others = vendored(archive.read("riverui/_assets/static/vendor/VERSIONS.md").decode())
    bill["components"] += others
    (needs,) = (each for each in bill["dependencies"] if each["ref"] == own["bom-ref"])
    needs["dependsOn"] = [*needs.get("dependsOn", ()), *(each["bom-ref"] for each in others)]
    return bill


def steps(number: str) -> str:
    """Return what is left to do, for a person who may."""
    image = "ghcr.io/riverui/riverui"
    bill = f"riverui-{number}.cdx.json"
    return f"""\
Nothing was tagged, signed or sent. What is left (docs/project/releasing.md):
  git tag -s v{number} -m "riverui {number}" && git push origin v{number}
  upload the wheel and the sdist to PyPI: trusted publishing, with attestations
  docker buildx build --sbom=true --provenance=true --push -t {image}:{number} .
  cosign sign {image}@sha256:…
  cosign attest --type cyclonedx --predicate dist/{bill} {image}@sha256:…
  give the release's page {bill}, SHA256SUMS and the section of CHANGELOG.md"""


def main() -> None:
    """Make a release as far as a program may."""
    number = version()
    found = list(problems(number))
    if found:
        raise Refused("\n".join(found))
    with TemporaryDirectory(prefix="riverui-release-") as name:
        folder = Path(name)
        print(f"riverui {number}: sdist and wheel, each in an environment of its own …", flush=True)
        files = built(folder)
        if found := list(too_large(files)):
            raise Refused("\n".join(found))
        run(sys.executable, "-m", "twine", "check", "--strict", *files)
        print("the wheel out of the sdist is that out of the clone; twine has nothing to say")
        (wheel,) = (folder / "dist").glob("*.whl")
        bill = bill_of_materials(wheel, folder)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for file in files:
            shutil.copy(file, DIST)
    (DIST / f"riverui-{number}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    sums = {each: hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted(DIST.iterdir())}
    for each, digest in sums.items():
        print(f"  {digest[:12]}…  {each.stat().st_size / 1e6:4.1f} MB  dist/{each.name}")
    (DIST / "SHA256SUMS").write_text(
        "".join(f"{digest}  {each.name}\n" for each, digest in sums.items())
    )
    print(steps(number))


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"not ready: {refused}".replace("\n", "\nnot ready: "))
