"""Archives from strangers: links, devices, names that lead out, bombs, lies about lengths, damage."""

import gzip
import io
import stat
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest

from eqbook.data import AlteredFileError
from eqbook.data.archives import open_zip, read_member, tar_members


def entry(name, content=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(content), link
    return info, io.BytesIO(content)


def archive(path, *entries, mode="w"):
    with tarfile.open(path, mode) as tar:
        for info, content in entries:
            content.seek(0)  # entries are used by several tests
            tar.addfile(info, content)
    return path


def zipped(path, *members, mode=zipfile.ZIP_STORED):
    """Members are (name, content) or (name, content, Unix mode)."""
    with zipfile.ZipFile(path, "w", mode) as opened:
        for name, content, *kind in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind[0] if kind else stat.S_IFREG | 0o644) << 16
            info.compress_type = mode
            opened.writestr(info, content)
    return path


HOSTILE = {
    "symbolic link": [entry("data/x", kind=tarfile.SYMTYPE, link="/etc/passwd")],
    "hard link": [entry("secret", b"secret"), entry("data/x", kind=tarfile.LNKTYPE, link="secret")],
    "device": [entry("data/x", kind=tarfile.CHRTYPE)],
    "fifo": [entry("data/x", kind=tarfile.FIFOTYPE)],
    "folder": [entry("data/x", kind=tarfile.DIRTYPE)],
    "too long": [entry("data/x", bytes(101))],
    "absolute": [entry("/data/x", b"evil")],
    "parent": [entry("../data/x", b"evil"), entry("data/../data/x", b"evil")],
    "nothing": [entry("other", b"evil")],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_member_is_refused(tmp_path, case):
    path = archive(tmp_path / "hostile.tar", *HOSTILE[case])
    with pytest.raises(AlteredFileError, match="`hostile.tar`: expected"):
        read_member(path, "data/x", limit=100)
    assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.tar"]


def test_only_the_named_member_is_read(tmp_path, monkeypatch):
    """Neighbours that would write outside, or that are endless, do no harm: nothing is unpacked to disk."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    path = archive(
        inside / "a.tar",
        entry("../evil", b"evil"),
        entry(str(tmp_path / "evil"), b"evil"),
        entry("data", kind=tarfile.SYMTYPE, link=".."),
        entry("./data/x", b"good"),
    )
    assert read_member(path, "data/x", limit=100) == b"good"
    assert [entry.name for entry in tmp_path.iterdir()] == ["inside"]
    assert [entry.name for entry in inside.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("cut", [0, 3, 700])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_damaged_archive(tmp_path, cut, mode):
    rng = np.random.default_rng(0)
    path = archive(tmp_path / "a.tar", entry("data/x", rng.bytes(5000)), mode=mode)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(AlteredFileError, match="`a.tar`: expected"):
        read_member(path, "data/x", limit=10_000)


@pytest.mark.parametrize("case", [case for case in HOSTILE if case not in ("nothing", "folder")])
def test_hostile_tar_is_not_listed(tmp_path, monkeypatch, case):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    path = archive(inside / "hostile.tar", *HOSTILE[case])
    with pytest.raises(AlteredFileError, match="`hostile.tar`: expected"):
        dict(tar_members(path, limit=100, count=10))
    assert [entry.name for entry in tmp_path.iterdir()] == ["inside"]
    assert [entry.name for entry in inside.iterdir()] == ["hostile.tar"]


def test_tar_is_listed_in_its_order_up_to_a_count(tmp_path):
    path = archive(tmp_path / "a.tar", entry("d", kind=tarfile.DIRTYPE), entry("./d/b", b"1"), entry("a", b"2"))
    assert list(tar_members(path, limit=1, count=2)) == [("d/b", b"1"), ("a", b"2")]
    with pytest.raises(AlteredFileError, match="at most 1 members, got more"):
        list(tar_members(path, limit=1, count=1))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_cut_tar_is_not_listed_to_the_end(tmp_path, mode):
    content = np.random.default_rng(0).bytes(5000)
    path = archive(tmp_path / "a.tar", entry("x", content), entry("y", content), mode=mode)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(AlteredFileError, match="`a.tar`: expected a tar archive, got damaged data"):
        dict(tar_members(path, limit=5000, count=2))


HOSTILE_ZIPS = {
    "symbolic link": ([("data/x", b"/etc/passwd", stat.S_IFLNK | 0o777)], "a link or device"),
    "device": ([("data/x", b"", stat.S_IFCHR)], "a link or device"),
    "too long": ([("data/x", bytes(101))], "one of 101 bytes"),
    "absolute": ([("/data/x", b"evil"), ("data/x", b"")], "stay inside"),
    "parent": ([("data/../../x", b"evil"), ("data/x", b"")], "stay inside"),
    "backslash": ([("..\\x", b"evil"), ("data/x", b"")], "stay inside"),
    "drive": ([("C:/x", b"evil"), ("data/x", b"")], "stay inside"),
    "nothing": ([("other", b"evil")], "an archive without it"),
}


@pytest.mark.parametrize("case", HOSTILE_ZIPS)
def test_hostile_zip_is_refused(tmp_path, case):
    members, said = HOSTILE_ZIPS[case]
    path = zipped(tmp_path / "hostile.zip", *members)
    with pytest.raises(AlteredFileError, match=f"`hostile.zip`: expected .*{said}"):
        read_member(path, "data/x", limit=100)
    assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.zip"]


def test_zip_with_a_name_twice(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zipped(tmp_path / "a.zip", ("x", b"1"), ("x", b"2"))
    with pytest.raises(AlteredFileError, match="each name once, got 'x' twice"), open_zip(path):
        pass


def test_bomb_is_not_unpacked(tmp_path):
    """Ten megabytes in ten kilobytes: refused from its header; and if the header lies, stopped at the limit."""
    path = zipped(tmp_path / "bomb.zip", ("x", bytes(10**7)), mode=zipfile.ZIP_DEFLATED)
    with pytest.raises(AlteredFileError, match="at most 100 bytes, got one of 10000000 bytes"):
        read_member(path, "x", limit=100)
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 50)  # the length that the directory claims
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(AlteredFileError, match="`bomb.zip`: expected"):
        read_member(path, "x", limit=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


def test_altered_zip_member_is_refused_by_its_checksum(tmp_path):
    path = zipped(tmp_path / "a.zip", ("x", b"good content"))
    assert read_member(path, "x", limit=100) == b"good content"
    path.write_bytes(path.read_bytes().replace(b"good content", b"evil content"))
    with pytest.raises(AlteredFileError, match="`a.zip`: expected a zip archive, got damaged data .*CRC-32"):
        read_member(path, "x", limit=100)


def test_zip_with_a_name_that_is_no_text(tmp_path):
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("\u00e9", b"")  # C3 A9 in UTF-8
    path.write_bytes(path.read_bytes().replace(b"\xc3\xa9", b"\xc3\xc3"))
    with pytest.raises(AlteredFileError, match="expected a zip archive, got damaged data"):
        read_member(path, "x", 10)


def test_zip_with_an_empty_name(tmp_path):
    path = zipped(tmp_path / "a.zip", ("Q", b"1"))
    path.write_bytes(path.read_bytes().replace(b"Q", b"\0"))  # names end at a zero byte
    with pytest.raises(AlteredFileError, match="an archive without it"):
        read_member(path, "x", 10)


def test_zip_lists_files_without_folders(tmp_path):
    path = zipped(tmp_path / "a.zip", ("d/", b"", stat.S_IFDIR), ("d/x", b"1"), ("y", b"2", 0))
    with open_zip(path) as opened:
        assert opened.names == ("d/x", "y") and opened.read("d/x", 1) == b"1" and opened.read("y", 1) == b"2"


def packed(path, *blocks):
    """A tar archive from its parts: headers, and contents filled up to whole blocks."""
    with gzip.open(path, "wb") as file:
        for block in blocks:
            file.write(block)
            file.write(bytes(-len(block) % tarfile.BLOCKSIZE))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
    return path


def header(name, size, kind):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


EXTENDED = {
    "PAX": tarfile.XHDTYPE,
    "PAX, for all": tarfile.XGLTYPE,
    "long name": tarfile.GNUTYPE_LONGNAME,
    "long link": tarfile.GNUTYPE_LONGLINK,
}
SIZE = 3 * 10**7


@pytest.mark.parametrize("kind", EXTENDED.values(), ids=list(EXTENDED))
def test_bomb_in_a_header_is_not_unpacked(tmp_path, kind):
    """Thirty megabytes of zeros where a long name should be."""
    path = packed(tmp_path / "bomb.tar.gz", header("x", SIZE, kind), bytes(SIZE), header("x", 0, tarfile.REGTYPE))
    assert path.stat().st_size < 10**5
    for read in (lambda: read_member(path, "x", limit=100), lambda: dict(tar_members(path, limit=100, count=10))):
        tracemalloc.start()
        with pytest.raises(
            AlteredFileError, match="(?s)expected a tar archive, got damaged data .*header of 30000000 bytes"
        ):
            read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10**6


def test_honest_extended_headers_are_read(tmp_path):
    for number, style in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        name = "data/" + "x" * 300
        path = tmp_path / f"{number}.tar"
        with tarfile.open(path, "w", format=style) as tar:
            info, content = entry(name, b"content")
            tar.addfile(info, content)
        assert read_member(path, name, limit=100) == b"content"


def test_sparse_files_are_refused(tmp_path):
    path = packed(tmp_path / "sparse.tar.gz", header("x", 0, tarfile.GNUTYPE_SPARSE))
    pax = tarfile.TarInfo("x")
    pax.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    second = packed(tmp_path / "pax.tar.gz", pax.tobuf(tarfile.PAX_FORMAT))
    for one in (path, second):
        with pytest.raises(AlteredFileError, match="a sparse file"):
            read_member(one, "x", limit=100)


def test_archive_of_countless_members(tmp_path, monkeypatch):
    """Empty members and folders cost no bytes when packed."""
    monkeypatch.setattr("eqbook.data.archives.MOST_MEMBERS", 50)
    for kind in (tarfile.REGTYPE, tarfile.DIRTYPE):
        path = packed(tmp_path / "many.tar.gz", *[header(f"{k}", 0, kind) for k in range(60)])
        with pytest.raises(AlteredFileError, match="members, got more"):
            read_member(path, "wanted", limit=100)


@pytest.mark.parametrize("mode", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bz2", "lzma"])
def test_zip_packed_by_another_method_is_refused(tmp_path, mode):
    """Python unpacks these without a bound; here thirty megabytes, in front of a header that says fifty bytes."""
    path = zipped(tmp_path / "bomb.zip", ("x", bytes(SIZE)), mode=mode)
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 50)
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(
        AlteredFileError, match="`bomb.zip`: expected 'x' to be stored or deflated, got the method (bzip2|lzma)"
    ):
        read_member(path, "x", limit=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_length_up_to_the_member_is_bounded(tmp_path, monkeypatch, mode):
    monkeypatch.setattr("eqbook.data.archives.MOST_PASSED", 10**6)
    junk = entry("junk", bytes(4 * 10**5))
    path = archive(tmp_path / "a.tar", junk, junk, entry("x", b"good"), mode=mode)
    assert read_member(path, "x", limit=100) == b"good"
    path = archive(tmp_path / "a.tar", junk, junk, junk, entry("x", b"good"), mode=mode)
    with pytest.raises(AlteredFileError, match="`a.tar`: expected a member 'x' within the first 1000000 bytes, got 12"):
        read_member(path, "x", limit=100)


def test_headers_of_headers_are_damage(tmp_path):
    header_of = [header("x", 512, tarfile.XHDTYPE), b"12 a=bcdefg\n"] * 2000
    path = packed(tmp_path / "deep.tar.gz", *header_of, header("x", 0, tarfile.REGTYPE))
    with pytest.raises(AlteredFileError, match="`deep.tar.gz`: expected a tar archive, got damaged data .*recursion"):
        read_member(path, "x", limit=100)
