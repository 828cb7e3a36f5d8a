"""What `cosched-plugin slurm` does: enforce, observe or advise until a signal; and the way back, which releases all jobs."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.limits import ENFORCED
from cosched_plugin.common.slurm_notation import WAITING
from cosched_plugin.common.trace_file import TraceFile
from cosched_plugin.config import PolicyChoice, believed
from cosched_plugin.protocol.messages import Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.quarantine import Quarantine
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.site.observing import MARK, JobLog, Observer
from cosched_plugin.site.poll_loop import Clock, PollLoop, connect, only_process, run
from cosched_plugin.site.store import Store
from cosched_plugin.slurm.actuator import Commands, SlurmActuator, annotate, change_job, run_command
from cosched_plugin.slurm.asking import GuestActuator
from cosched_plugin.slurm.cluster import TICK, Cluster
from cosched_plugin.slurm.dialect import MET, Change
from cosched_plugin.slurm.guests import is_placed, patience_s
from cosched_plugin.slurm.pairing import Shown, share_of, shown
from cosched_plugin.slurm.places import nodes_of
from cosched_plugin.slurm.probe import probe
from cosched_plugin.slurm.records import SlurmJob, SlurmNode
from cosched_plugin.slurm.rest import DatabasePolls, Polls, Rest
from cosched_plugin.slurm.seating import Seating
from cosched_plugin.slurm.site_file import Site, read_site
from cosched_plugin.slurm.transport import HttpTransport, Token, file_token
from cosched_terminal.console import WARNING, Log, say
from cosched_terminal.own_file import open_folder

WAIT_S: Final = 60.0
DATABASE_S: Final = 180.0
CLOCK_S: Final = 5.0  # by which clocks may differ
REST_PORT: Final = 6820  # SchedMD's examples
TOKEN_S: Final = 3_600  # how long a token lives that is fetched


class Asked(NamedTuple):
    """What enforcing and observing are asked for alike."""

    address: str  # of slurmrestd
    rest: Rest
    token: Token | None
    site: Site
    choice: PolicyChoice
    models: Mapping[str, Any]
    share: int | None  # None: as site file, policy and partition say
    wake: str | None
    metrics: str | None  # where the status is served
    log: Log

    def cluster(self, *, observed: bool, acts: bool) -> Cluster:
        """Wait for Slurm; UsageError for nodes or a policy that cannot be served, and where jobs are changed (``acts``) for more.

        ``observed``: the jobs that wait are those that Slurm may start.
        """
        polls = Polls(self.rest)
        connect(polls, WAIT_S, self.log)
        self._check_version(polls, acts=acts)
        if abs(ahead_s := self.rest.ahead_s()) > CLOCK_S:
            off = f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this host's"
            self.log("clock", f"Slurm's clock is {off}: begin times and ends are misjudged by that", level=WARNING)
        share = self._share(polls.nodes, acts=acts)
        if acts and self.token is not None and (why := _ordinary(self.token.user)):
            self.log("ordinary-user", why, level=WARNING)
        ignored: frozenset[str] = getattr(self.choice.make(), "ignored", frozenset())
        config = shown(_show("config"))
        polls.database = self._database(config)
        memory = "MEMORY" in config.get("SelectTypeParameters", "").upper()
        cluster = Cluster(polls, self.site, share, ignored, observed=observed, counts_memory=memory)
        if self.site.measured is not None:
            from cosched_plugin.slurm.beliefs import with_measured  # noqa: PLC0415 - few sites have measured pairs

            cluster.machine = with_measured(cluster.machine, self.site, believed(cluster.machine, self.models))
            if self.choice.settings.get("belief") is None:
                self.log(
                    "not-corrected", "[belief] measured has an effect only with --set belief=corrected", level=WARNING
                )
        self.choice.scheduler(cluster.machine, models=self.models)  # a policy that cannot work here is refused now
        if unknown := self.site.strangers(node.name for node in polls.nodes):
            # No error: beside a slip it may be a node that is no more, or not yet.
            named = ", ".join(unknown[:5]) + (", ..." if unknown[5:] else "")
            self.log("unknown-nodes", f"[[machine.class]] names {named}, which Slurm does not have", level=WARNING)
        return cluster

    def _database(self, config: Shown) -> DatabasePolls | None:
        """Return what asks for the limits that Slurm enforces, and has done so; None where there is no slurmdbd to ask."""
        there = "slurmdbd" in config.get("AccountingStorageType", "")
        why = "" if there else "Slurm has no slurmdbd" if config else "scontrol shows no configuration"
        if there and ENFORCED.isdisjoint(config.get("AccountingStorageEnforce", "").lower().split(",")):
            why = "AccountingStorageEnforce has no `limits`"
        if why:
            self.log("no-limits", f"limits of QOS and associations are not known in advance: {why}")
        if not there:
            return None
        cluster = "" if why else config.get("ClusterName", "")
        # Longer than slurmrestd waits for slurmdbd: each question that is given up would go on there, and has one of its threads.
        rest = rest_of(self.address, self.token, self.rest.version, DATABASE_S)
        database = DatabasePolls(rest, cluster, self.log)
        database.begin(Clock().now_s())
        return database

    def _check_version(self, polls: Polls, *, acts: bool) -> None:
        """Try a version of the interface that nobody has met; UsageError where jobs cannot be placed with it."""
        version, (partition, *_) = self.rest.version, self.site.partitions
        if version in MET:
            return
        node = next((node.name for node in polls.nodes if partition in node.partitions), "")
        why = "" if not acts or not node else probe(self.rest, partition, node)
        if why:
            raise UsageError(f"{version} of slurmrestd is not one of {', '.join(MET)}, and cannot be used: {why}")
        self.log("version", f"{version} of slurmrestd is not known: its answers may be misread", level=WARNING)

    def _share(self, nodes: Sequence[SlurmNode], *, acts: bool) -> int:
        """Return how many jobs may be on a core; UsageError where slurm.conf does not allow it, and jobs are to be placed."""
        pairs = self.choice.settings.get("matching", "none") not in ("none", {"name": "none"})
        share, findings = share_of(self.site, self.share or self.site.share, nodes, _show, pairs=pairs)
        fatal = [finding.words for finding in findings if finding.fatal and acts]
        if fatal:
            raise UsageError("slurm.conf does not let jobs share nodes: " + "; ".join(fatal))
        for finding in findings:
            self.log("sharing", finding.words, level=WARNING)
        return share

    def say(self, event: str, words: str, cluster: Cluster, more: str = "") -> None:
        """Log what begins."""
        text = f"{self.choice.name} {words} {len(cluster.names)} nodes of {', '.join(self.site.partitions)}{more}"
        self.log(event, text, api=self.rest.version)

    def explained(self, welcome: Welcome, sink: Callable[[Mapping[str, Any]], None]) -> Scheduler:
        """Return a scheduler that tells its reasons."""
        return self.choice.scheduler(welcome, trace=sink, models=self.models)

    def run(self, loop: PollLoop) -> int:
        """Go on until a signal, with the status served if that is wanted; return the exit code."""
        with ExitStack() as open_things:
            if self.metrics is not None:
                from cosched_plugin.common.page_server import serve_metrics  # noqa: PLC0415 - few have it

                open_things.callback(serve_metrics(self.metrics, loop.status, self.log).close)
            return run(loop, self.log, self.wake)


def enforce(
    asked: Asked,
    state: str,
    tick_partition: str | None,
    trace_file: str | None,
    record_file: str | None,
    *,
    set_aside: bool,
) -> int:
    """Enforce until a signal; return the exit code."""
    log, clock = asked.log, Clock()
    with ExitStack() as open_things:
        open_things.enter_context(only_process(state))
        open_things.enter_context(only_placing(asked.site, shown(_show("config"))))
        cluster = asked.cluster(observed=False, acts=True)
        store = open_store(state, cluster.names, cluster.machine, log)
        open_things.callback(store.close)
        trace = None if trace_file is None else open_things.enter_context(TraceFile(trace_file)).write
        record = None if record_file is None else open_things.enter_context(TraceFile(record_file, at_once=True)).write
        ticks = _tick_partition(tick_partition)
        if ticks is None:
            log("no-tick", "no short jobs wake Slurm: starts may take a second longer")
        tools = Commands(ticks)
        open_things.callback(tools.close)
        make: SchedulerFactory = partial(asked.choice.scheduler, trace=trace, models=asked.models)
        actuator = SlurmActuator(cluster, tools, clock, log)
        enforcer = Enforcer(
            cluster, actuator, store, Quarantine(make, log, cluster.label) if set_aside else make, clock, log, record
        )
        asked.say("enforcing", "decides for", cluster, f", {cluster.share} jobs a core")
        return asked.run(enforcer)


def observe(asked: Asked, folder: str | None, *, anonymous: bool, writes: bool) -> int:
    """Say what would be done until a signal, and log what happens in a new folder; return the exit code."""
    log = asked.log
    asked.rest.list.follows_ends = True
    cluster = asked.cluster(observed=True, acts=False)
    job_log = (
        None if folder is None else JobLog(folder, cluster.machine.nodes, cluster.history(()), anonymous=anonymous)
    )
    remark = partial(annotate, cluster, Commands(None)) if writes else None
    observer = Observer(cluster, asked.explained, Clock(), log, say, job_log, remark)
    asked.say("looking-on", "looks at", cluster)
    try:
        return asked.run(observer)
    finally:
        if job_log is not None:
            job_log.close()
            ended = f"{folder}: {job_log.written} jobs that have ended"
            log("logged", f"{ended}; {job_log.running} still run and are left out")


def seat_guests(asked: Asked, *, dry: bool, requeues: bool) -> int:
    """Seat guests beside Slurm's own scheduler until a signal; return the exit code."""
    if not asked.site.guests:
        raise UsageError("--mode guests: expected --guests HOST:GUEST, two partitions over the same nodes")
    if others := set(asked.site.partitions) - {*asked.site.guests, *asked.site.guests.values()}:
        raise UsageError(
            f"--mode guests: partition {', '.join(sorted(others))} has no partition for guests; expected --guests"
        )
    with ExitStack() as held:
        if not dry:
            held.enter_context(only_placing(asked.site, shown(_show("config"))))
        return _seat_guests(asked, dry=dry, requeues=requeues)


def _seat_guests(asked: Asked, *, dry: bool, requeues: bool) -> int:
    log, clock, cluster = asked.log, Clock(), asked.cluster(observed=True, acts=not dry)
    if cluster.share == 1:
        raise UsageError(
            f"--mode guests: policy {asked.choice.name} seats no guests; expected one that pairs jobs, such as guests"
        )
    pairs = believed(cluster.machine, asked.models)
    if pairs is None:
        log("no-belief", "no guests: the site file has no [belief] about jobs that share a node", level=WARNING)
    tools = Commands(None)
    actuator = GuestActuator(cluster, tools, clock, log, dry=dry)
    matching = asked.choice.settings.get("matching")
    seating = Seating(
        cluster, actuator, asked.explained, pairs, clock, log, None if dry else partial(annotate, cluster, tools),
        patience_s=patience_s(shown(_show("config"))), requeues=requeues,
        empty_nodes=isinstance(matching, dict) and matching.get("empty_nodes") is True,
    )  # fmt: skip
    names = ", ".join(f"{guest} beside {host}" for host, guest in asked.site.guests.items())
    asked.say("seating", "would seat guests on" if dry else "seats guests on", cluster, f": {names}")
    return asked.run(seating)


@contextmanager
def only_placing(site: Site, config: Shown) -> Iterator[None]:
    """Keep other processes away: two would take back what the other one places. UsageError where another one is there."""
    where = " ".join(config.get(key, "") for key in ("ClusterName", "SlurmctldHost[0]", "SlurmctldPort"))
    with ExitStack() as held:
        for partition in sorted(site.partitions):
            # A name of the machine, whoever runs a process, with any state folder and address; and the kernel gives it back.
            name = f"\0cosched-{sha256(f'{where} {partition}'.encode()).hexdigest()[:24]}"
            one = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                one.bind(name)
            except OSError as error:
                places = f"process {_owner(name)} places jobs of partition {partition} of cluster {config.get('ClusterName', '')}"
                raise UsageError(f"{places} already; expected one at a time") from error
            one.listen(128)
        yield


def _owner(name: str) -> str:
    """Return the number of the process that listens at a name."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as other:
        other.settimeout(1.0)
        other.connect(name)
        return str(struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    return "?"


def release_all(rest: Rest, site: Site, *, dry_run: bool) -> int:
    """Give all waiting jobs back to Slurm; return how many could not be."""

    def back(job: SlurmJob) -> Change | None:
        home = site.home_of(job.partition)
        pinned = job.restarts > 0 and job.required  # to the nodes that it had: Slurm would wait for them
        if job.held == "admin" or not site.is_ours(job) or not (pinned or job.held):
            return None
        return Change(() if pinned else None, release=True, partition="" if home == job.partition else home)

    none = f"no job of {', '.join(site.partitions)} is held by its user"
    return _give_back(rest, site, back, "released", none, dry_run=dry_run)


def withdraw_all(rest: Rest, site: Site, *, dry_run: bool) -> int:
    """Put all jobs that wait in a partition of guests back where their users have submitted them; return how many could not be."""
    if not site.guests:
        raise UsageError("expected --guests HOST:GUEST, or [ours] guests in the site file")
    guests = set(site.guests.values())

    def back(job: SlurmJob) -> Change | None:
        return Change((), partition=site.home_of(job.partition)) if is_placed(job, site) else None

    none = f"no job waits in {', '.join(sorted(guests))}"
    return _give_back(rest, site, back, "put back", none, dry_run=dry_run, remark=f"{MARK}no guest: it was withdrawn")


def _give_back(
    rest: Rest,
    site: Site,
    back: Callable[[SlurmJob], Change | None],
    done: str,
    none: str,
    *,
    dry_run: bool,
    remark: str = "",
) -> int:
    """Change the waiting jobs for which there is a change; say what was ``done``; return how many could not be changed.

    ``remark``: what takes the place of a remark of ours.
    """
    polls = Polls(rest)
    connect(polls, WAIT_S, Log("cosched-plugin"))
    nodes_of(polls.nodes, site.partitions, 1)  # a name that Slurm does not know is refused
    failed, tools = 0, Commands(None)
    changes = [(job, change) for job in polls.jobs if job.state in WAITING and (change := back(job)) is not None]
    for job, change in changes:
        outcome = None if dry_run else change_job(rest, tools, job.label, change)
        failed += outcome is not None
        if remark and outcome is None and not dry_run and job.admin_comment.startswith(MARK):
            tools.scontrol("update", f"JobId={job.label}", f"AdminComment={remark}")
        name = f"{job.label}_[{job.waiting_tasks}]" if job.waiting_tasks else job.label
        say(f"job {name}: {outcome or (f'would be {done}' if dry_run else done)}")
    if not changes:
        say(none)
    return failed


def open_store(state: str, names: tuple[str, ...], machine: Welcome, log: Log) -> Store:
    """Return the store; a fresh one, beside the old, where that is about other nodes, or a policy that pairs jobs does not."""
    if why := open_folder(state):
        log("open-folder", why, level=WARNING)
    # The first number is theirs: the books count nodes in this order, and what is free on nodes of these sizes.
    key = f"nodes {','.join(names)} {[kind[:5] for kind in machine.nodes]}"
    store = Store(state)
    if store.number(key) != 1:
        store.close()
        os.replace(state, f"{state}.old")
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.remove(state + suffix)
        log(
            "other-nodes",
            f"{state} describes other nodes, or jobs a core, and was renamed to {state}.old: notes and wakes in it are lost",
        )
        store = Store(state)
        store.number(key)
    return store


def default_state() -> str:
    """Return where the state is kept where nothing else is said."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "cosched", "slurm.sqlite")


def token_of(jwt_file: str | None, *, fetches: bool) -> Token | None:
    """Return who we are for slurmrestd; UsageError for no token where there should be one."""
    if jwt_file is not None and fetches:
        raise UsageError("expected --jwt-file or --fetch-jwt, got both")
    if jwt_file is not None:
        return file_token(jwt_file)
    return Token(_fetch, "--fetch-jwt") if fetches else None


def _fetch() -> str:
    """Return what `scontrol token` prints; UsageError where it does not."""
    try:
        done = run_command("scontrol", "token", f"lifespan={TOKEN_S}", timeout_s=WAIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"--fetch-jwt: scontrol token: {error.strerror if isinstance(error, OSError) else 'no answer'}"
        ) from error
    if done.returncode:
        raise UsageError(f"--fetch-jwt: scontrol token: {done.stderr.strip()[:200]}")
    return done.stdout


def rest_of(address: str, token: Token | None = None, version: str = "", wait_s: float = 0.0) -> Rest:
    """Return the conversation with the slurmrestd at an address; UsageError for an address of another form."""
    scheme, _, path = address.partition(":")
    if scheme == "unix" and path:
        return Rest(HttpTransport(path, token, wait_s), version)
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.hostname and address.rstrip("/") == f"http://{parts.netloc}" and "@" not in address:
            return Rest(HttpTransport((parts.hostname, parts.port or REST_PORT), token, wait_s), version)
    raise UsageError(f"--rest {address}: expected unix:PATH or http://HOST:PORT, where slurmrestd listens")


def site_of(file: str | None, partitions: tuple[str, ...], guests: tuple[str, ...] = ()) -> Site:
    """Return what a site file and the command line say; UsageError where neither names a partition."""
    site = read_site(file).with_partitions(partitions, guests)
    if not site.partitions:
        raise UsageError(
            "which jobs does cosched place? expected --partition NAME, or [ours] partitions in the site file"
        )
    return site


def _tick_partition(wanted: str | None) -> str | None:
    """Return the partition for the jobs that wake Slurm; None: there is none, or their records would fill the site's accounts."""
    accounts = "slurmdbd" in shown(_show("config")).get("AccountingStorageType", "")
    name = wanted or ("" if accounts else TICK)
    return name if name and _show("partition", name) else None


def _ordinary(user: str) -> str:
    """Return why changes in a user's name may be refused; empty for Slurm's own user, and where that cannot be found out."""
    slurm_user = shown(_show("config")).get("SlurmUser", "").partition("(")[0]
    if not user or not slurm_user or user in ("root", slurm_user):
        return ""
    return f"the token is of user {user}: Slurm refuses its changes unless the user is an operator (AdminLevel in slurmdbd)"


def _show(*words: str) -> str:
    """Return what scontrol shows of something; empty where it shows nothing."""
    try:
        done = run_command("scontrol", "-o", "show", *words, timeout_s=WAIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
