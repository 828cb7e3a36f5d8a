"""Files whose contents a program believes, or that it writes in place: opened only if no other user can have made or changed them.

Beside the path that a user gives, programs open files whose names follow from it, such as the lease of a database. Another user who
may create files in that folder could have put a link there, which would have the program write to a file elsewhere, a named pipe,
which would have it wait, or a file of its own. `open_own` is how all of them are opened; it never truncates. SQLite opens by path:
`check_own` looks at its files before.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_ALWAYS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
SQLITE_FILES: Final = ("", "-wal", "-shm", "-journal")  # of a database


def open_own(
    path: str | os.PathLike[str],
    flags: int = os.O_RDONLY,
    *,
    mode: int = 0o600,
    private: bool = False,
    alone: bool = False,
    shared: bool = False,
) -> int:
    """Return the descriptor of a file; PermissionError, which says why, unless it is one of ours. Raises other OSError, too.

    It is a file and no link, of this process's user or root, and nobody else may write to it. With ``private`` it is this user's, and
    nobody else may read it. With ``alone`` it has no second name: it is for files that are written over whatever they hold, and where
    a system lets users make hard links to files of others, such a name may be of any file of root. With ``shared`` it may be anybody's.
    ``flags`` may have O_CREAT, for a new file with this ``mode``.
    """
    try:
        descriptor = os.open(path, flags | _ALWAYS, mode)
    except OSError as error:
        # A link; a pipe without a reader, or a socket; in folders such as /tmp Linux refuses some files of others itself.
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EACCES):
            check_own(path)
        raise
    found = os.fstat(descriptor)
    why = _what_else(found) or ("" if shared else _whose_else(found))
    if not why and private and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
        why = "one that others may read"
    if not why and alone and found.st_nlink > 1:
        why = "one that has a second name (a hard link)"
    if why:
        os.close(descriptor)
        raise _refused(why, path)
    return descriptor


def check_own(*paths: str | os.PathLike[str]) -> None:
    """Raise PermissionError, which says why, if there is something at a path that `open_own` would refuse."""
    for path in paths:
        with suppress(FileNotFoundError):
            why = why_not_own(os.lstat(path))
            if why:
                raise _refused(why, path)


def why_not_own(found: os.stat_result) -> str:
    """Return what speaks against a file as one of this user or root to which nobody else may write; empty: nothing."""
    return _what_else(found) or _whose_else(found)


def _what_else(found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "a link"
    return "" if stat.S_ISREG(found.st_mode) else "something that is no file"


def is_ours(found: os.stat_result) -> bool:
    """Return whether something belongs to this process's user or root, so that no other user could have put it there."""
    return found.st_uid in (0, os.geteuid())


def _whose_else(found: os.stat_result) -> str:
    if not is_ours(found):
        return f"one of user {found.st_uid}, who is neither this one nor root"
    if found.st_mode & 0o022:
        return f"one that others may write to (mode {stat.S_IMODE(found.st_mode):04o}; chmod go-w)"
    return ""


def open_folder(path: str | os.PathLike[str]) -> str:
    """Return why others may replace the files in the folder of a path, whosever they are; empty: they may not."""
    folder = Path(os.path.abspath(path)).parent
    mode = folder.stat().st_mode
    if mode & 0o002 and not mode & stat.S_ISVTX:
        return f"anybody may replace files in {folder} (mode {stat.S_IMODE(mode):04o}; chmod o-w, or +t)"
    return ""


def _refused(why: str, path: str | os.PathLike[str]) -> PermissionError:
    return PermissionError(errno.EPERM, why, os.fspath(path))
