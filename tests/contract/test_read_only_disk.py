"""The disk of the database fails under a live manager: the kernel makes its file system read-only, with jobs in slots."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.commands import Commands
from tests.contract.test_live_time_sharing import FOUR, MESSAGES, SECOND_US, LiveSite, assert_undisturbed
from tests.emulator.live.shared_time import scenario_of
from tests.emulator.submissions import submit_job
from tests.processes import ended, wait_until

from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import ListJobs, Refused, ShowStatus

LOST: Final = "steps and changes are lost"


class Disk:
    """An ext4 file system in a file."""

    def __init__(self, image: Path, folder: Path) -> None:
        self._image = image
        self.folder = folder
        with open(image, "wb") as stream:
            stream.truncate(64 << 20)
        _tool("mkfs.ext4", "-q", "-e", "remount-ro", str(image))
        self.mount()

    def mount(self) -> None:
        _tool("mount", "-o", "loop", str(self._image), str(self.folder))

    def fail(self) -> None:
        """Let the kernel find an error in the file system: what it has not written is lost, and it writes no more."""
        number = os.stat(self.folder).st_dev
        device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")

    def repair(self) -> None:
        _tool("umount", str(self.folder))
        subprocess.run(["e2fsck", "-fy", str(self._image)], stdout=subprocess.DEVNULL, check=False, timeout=30)
        self.mount()


def _tool(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if ran.returncode:
        raise OSError(f"{command[0]}: {ran.stderr.strip()}")


@pytest.fixture
def disk(commands: Commands) -> Iterator[Disk]:
    folder = commands.folder / "disk"
    folder.mkdir()
    if os.geteuid():
        pytest.skip("needs root, to mount a file system")
    try:
        made = Disk(commands.folder / "disk.img", folder)
    except OSError as error:
        pytest.skip(f"needs a file system of its own: {error}")
    try:
        yield made
    finally:
        for child in commands.children:
            child.kill()
            child.wait(10)
        _tool("umount", "--lazy", str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(("policy", "jobs"), [("paired-gang", 4), ("coscheduling", 3)])
def test_what_was_confirmed_survives_a_disk_that_fails(
    policy: str, jobs: int, stop: signal.Signals, commands: Commands, disk: Disk
) -> None:
    table = scenario_of(commands.folder, FOUR) if policy == "paired-gang" else MESSAGES
    site = LiveSite(commands, table, policy, database="disk/live.db")
    held = submit_job(1, SECOND_US, held=True)
    wait_until(lambda: site.ask(ShowStatus())["jobs"]["running"] > 1)
    (confirmed,) = site.ask(held)["job_ids"]
    disk.fail()
    with ManagerConnection(site.users, 20.0) as connection:
        answer = connection.ask(held)
    assert isinstance(answer, Refused)
    assert answer.code == "accounting"
    site.manager.send_signal(stop)
    ran = ended(site.manager)
    assert ran.code == (1 if stop == signal.SIGTERM else -stop), ran
    assert (LOST in ran.err) == (stop == signal.SIGTERM)
    disk.repair()
    if stop == signal.SIGTERM:  # the manager has written its results, and told the scheduler that it ends
        shutil.rmtree(commands.folder / "run")
        site.plugin = site.start_plugin()
    site.start_manager()
    assert confirmed in [row[0] for row in site.ask(ListJobs())["rows"]]
    assert_undisturbed(site, policy, jobs)
