"""Known vulnerabilities of the locked versions: `python .ci/audit.py constraints.txt`, with pip-audit.

Fails when an advisory names a version of the lock. Where no advisory could be asked for (no network, or an index
without advisories), it says so and does not fail: it has then checked nothing.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def read_report(report: dict) -> tuple[list[str], list[str], list[str]]:
    """Split the packages of a report into those checked, those not checked and the vulnerabilities found."""
    checked, unchecked, found = [], [], []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            unchecked.append(package["name"])
            continue
        checked.append(package["name"])
        for advisory in package["vulns"]:
            cure = ", ".join(advisory["fix_versions"]) or "none yet"
            found.append(f"{package['name']} {package['version']}: {advisory['id']}, mended in {cure}")
    return checked, unchecked, found


def ask(lock: Path, folder: Path) -> dict | str:
    """Return the report of pip-audit on a lock file, or why there is none. It is installed in `folder`, by itself."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", "pip-audit"]
    try:
        install = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "pip-audit could not be installed within 300 s"
    if install.returncode:
        return "pip-audit could not be installed: " + install.stderr.strip()[-300:]
    output = folder / "report.json"
    command = [python, "-m", "pip_audit", "--requirement", lock, "--no-deps", "--disable-pip", "--format", "json"]
    try:
        run = subprocess.run(
            [*command, "--output", output, "--progress-spinner", "off"], capture_output=True, text=True, timeout=300
        )
    except subprocess.TimeoutExpired:
        return "pip-audit did not end within 300 s"
    if not output.is_file():
        return "no advisories were received: " + run.stderr.strip()[-300:]
    return json.loads(output.read_text())


def main(lock: str) -> int:
    """Print what was checked; return 1 if a vulnerability is known."""
    with tempfile.TemporaryDirectory() as folder:
        report = ask(Path(lock).resolve(), Path(folder))
    if isinstance(report, str):
        print(f"NOT CHECKED: {report}")
        return 0
    checked, unchecked, found = read_report(report)
    print(f"{len(checked)} packages checked, {len(found)} known vulnerabilities")
    if unchecked:
        print(f"NOT CHECKED, no advisories at this index: {len(unchecked)} packages, {', '.join(unchecked[:5])}, ...")
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
