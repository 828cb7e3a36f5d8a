"""Files of another user, links and pipes in the place of files that a program believes; they need a second user, so root."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cosched_terminal.own_file import check_own, open_folder, open_own

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root can give files to another user")


def given_away(path: Path) -> None:
    path.write_bytes(b"kept")
    path.chmod(0o666)
    os.chown(path, STRANGER, STRANGER)


def writable(path: Path) -> None:
    path.write_bytes(b"kept")
    path.chmod(0o620)


def linked(path: Path) -> None:
    path.with_name("target").write_bytes(b"kept")
    path.symlink_to("target")


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def second_name(path: Path) -> None:
    path.with_name("target").write_bytes(b"kept")
    os.link(path.with_name("target"), path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(given_away, "one of user 54321, who is neither this one nor root", marks=as_root),
        (writable, "one that others may write to (mode 0620; chmod go-w)"),
        (linked, "a link"),
        (pipe, "something that is no file"),
        (Path.mkdir, "something that is no file"),
        (second_name, "one that has a second name (a hard link)"),
    ],
)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
def test_what_others_may_have_made_is_refused(
    make: Callable[[Path], None], why: str, flags: int, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    make(path)
    with pytest.raises((PermissionError, IsADirectoryError)) as caught:
        os.close(open_own(path, flags, alone=True))
    assert caught.value.strerror in (why, "Is a directory")
    assert caught.value.filename in (path, str(path))
    if make is not second_name:
        with pytest.raises(PermissionError) as caught:
            check_own(path)
        assert caught.value.strerror == why
    for file in (path, path.with_name("target")):
        assert not file.is_file() or file.read_bytes() == b"kept"


def test_a_dangling_link_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("target")
    with pytest.raises(PermissionError, match="a link"):
        open_own(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert not (tmp_path / "target").exists()


def test_own_files_are_opened_and_made_private(tmp_path: Path) -> None:
    path = tmp_path / "file"
    os.close(open_own(path, os.O_RDWR | os.O_CREAT))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.close(open_own(path, private=True))
    path.chmod(0o644)
    os.close(open_own(path))
    with pytest.raises(PermissionError, match="one that others may read"):
        open_own(path, private=True)
    check_own(path, tmp_path / "none")


@as_root
def test_a_shared_file_may_be_anybody_s(tmp_path: Path) -> None:
    given_away(tmp_path / "file")
    os.close(open_own(tmp_path / "file", os.O_RDWR, alone=True, shared=True))
    linked(tmp_path / "link")
    with pytest.raises(PermissionError, match="a link"):
        open_own(tmp_path / "link", os.O_RDWR, alone=True, shared=True)


def test_a_folder_in_which_anybody_may_replace_files_is_told(tmp_path: Path) -> None:
    for mode, told in ((0o755, False), (0o777, True), (0o1777, False)):
        tmp_path.chmod(mode)
        assert bool(open_folder(tmp_path / "c.db")) == told
