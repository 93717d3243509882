"""Fetch Chart.js, which draws the dashboard's charts, from the npm registry into the package.

    python scripts/fetch_chart_js.py            # fetch it
    python scripts/fetch_chart_js.py --check    # exit 1 if what is in the package differs

Needs npm, which also says where the registry is. Nothing of it runs: two files are taken from the
archive, whose SHA-512 must be the one below. A new version is a new VERSION and INTEGRITY, as
`npm view chart.js dist.integrity` shows it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.6.1"
INTEGRITY = (
    "sha512-hJyniucsFmq//EvXYvJ6c6mahPoI3kaxdjVH8awTaJ/f"
    "DNWeSqqqArixMJWkWNN6fcYvPU3HneSANFNYtRi61g=="
)
FILES = {
    "package/dist/chart.umd.min.js": "chart.umd.min.js",
    "package/LICENSE.md": "chart.js-LICENSE.md",
}
ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "pywrapai_monitor" / "dashboard" / "static" / "vendor"


def integrity(archive: bytes) -> str:
    """As npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()


def fetch(folder: Path) -> Path:
    """The archive of the version, as the registry gives it."""
    command = ["npm", "pack", f"chart.js@{VERSION}", "--silent", "--ignore-scripts"]
    subprocess.run([*command, "--pack-destination", str(folder)], check=True, stdout=sys.stderr)
    return next(folder.glob("*.tgz"))


def contents(archive: Path) -> dict[str, bytes]:
    """The files to keep. ValueError if the archive is another one than was looked at."""
    found = integrity(archive.read_bytes())
    if found != INTEGRITY:
        raise ValueError(f"chart.js {VERSION} has the integrity {found}, not {INTEGRITY}")
    with tarfile.open(archive) as tar:
        return {name: _read(tar, path) for path, name in FILES.items()}


def _read(tar: tarfile.TarFile, path: str) -> bytes:
    member = tar.extractfile(path)
    if member is None:
        raise ValueError(f"{path} is no file in the archive")
    return member.read()


def main(arguments: list[str]) -> int:
    """Fetch, and write or compare."""
    parser = argparse.ArgumentParser(description="Fetch Chart.js into the package.")
    parser.add_argument("--check", action="store_true", help="exit 1 if the files differ")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        files = contents(fetch(Path(folder)))
    if options.check:
        stale = [name for name, body in files.items() if _kept(name) != body]
        print(f"not those of chart.js {VERSION}: {', '.join(stale)}" if stale else "up to date")
        return 1 if stale else 0
    TARGET.mkdir(exist_ok=True)
    for name, body in files.items():
        (TARGET / name).write_bytes(body)
        print(f"{name}: {len(body):,} bytes of chart.js {VERSION}")
    return 0


def _kept(name: str) -> bytes | None:
    path = TARGET / name
    return path.read_bytes() if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
