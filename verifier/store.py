"""What lies where: the store and its run folders."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ..histories.folder import RunFolder
from .errors import UsageError

LATEST: Final = "latest"


class RunPaths(RunFolder):
    """One run folder with what the verifier alone keeps in it; `path` is absolute."""

    @property
    def reaped(self) -> Path:
        """Deaths that the verifier itself saw."""
        return self.path / "reaped.jsonl"

    @property
    def harness(self) -> Path:
        """How the run went as the harness saw it: phases, interruption, notes."""
        return self.path / "harness.json"

    @property
    def harness_error(self) -> Path:
        """Traceback of a failure of the harness itself."""
        return self.path / "harness-error.txt"

    @property
    def token(self) -> Path:
        """The cluster's shared secret, readable by its owner alone."""
        return self.path / "cluster.token"

    @property
    def code_version(self) -> Path:
        """Version of the code that a fork server loads when it boots."""
        return self.path / "code-version"

    def state_of(self, supervisor: str) -> Path:
        """State folder of a supervisor; `supervisor` is the first one's name."""
        return self.path / supervisor

    def config_of(self, supervisor: str) -> Path:
        """What a supervisor was started with."""
        return self.path / f"{supervisor}.json"

    def log_of(self, supervisor: str) -> Path:
        """Standard error of a supervisor and its workers."""
        return self.path / f"{supervisor}.log"

    def clock_shim_of(self, supervisor: str) -> Path:
        """What moves the time of day of a supervisor, in runs with a fault that does."""
        return self.path / f"{supervisor}-clock.so"

    def supervisor_states(self) -> list[Path]:
        """State folders of all supervisors that ever ran, the first one's first."""
        return sorted(path for path in self.path.glob("supervisor*") if path.is_dir())

    @property
    def failed_jobs(self) -> Path:
        """The failed-job store that the workers write."""
        return self.path / "failed-jobs.sqlite"

    @property
    def links_control(self) -> Path:
        """The Unix socket on which the link proxy takes orders."""
        return self.path / "links.sock"

    @property
    def links_config(self) -> Path:
        """What the link proxy was started with."""
        return self.path / "links.json"

    @property
    def links_log(self) -> Path:
        """Standard error of the link proxy."""
        return self.path / "links.log"

    @property
    def capture_config(self) -> Path:
        """What the recording of packets was started with."""
        return self.path / "capture.json"

    @property
    def capture_log(self) -> Path:
        """The recording's standard error."""
        return self.path / "capture.log"

    @property
    def capture_marks(self) -> Path:
        """What acted on which links when, for the recording."""
        return self.path / "capture-marks.jsonl"

    @property
    def capture(self) -> Path:
        """What was captured on the links."""
        return self.path / "capture"

    def node_config(self, node: str) -> Path:
        """What the node was started with."""
        return self.nodes / f"{node}.json"

    def node_data(self, node: str) -> Path:
        """The node's data."""
        return self.nodes / node

    def node_time_of_day(self, node: str) -> Path:
        """By how much the node's time of day is wrong."""
        return self.nodes / f"{node}.time-of-day"

    def node_log(self, node: str) -> Path:
        """The node's standard error."""
        return self.nodes / f"{node}.log"


def check_store(store: Path) -> None:
    """Make the store and prove that it takes files.

    Raises:
        UsageError: It does not; the line names the folder and the system's reason.
    """
    probe = store / f".probe-{_unique()}"
    try:
        store.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"probe")
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"store folder {str(store)!r} cannot be written: {error.strerror}; "
            "choose another with --store DIR"
        ) from None


def make_run_folder(store: Path, workload: str, nemesis: str) -> RunPaths:
    """Make `store/<workload>-<nemesis>/<UTC time>/` and point `store/latest` at it.

    Raises:
        UsageError: The store cannot be written.
    """
    check_store(store)
    family = store.resolve() / f"{workload}-{nemesis}"
    try:
        while True:
            moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
            run = RunPaths(family / moment)
            try:
                run.path.mkdir(parents=True)
                break
            except FileExistsError:
                continue
        for folder in (run.attempts, run.nodes, run.supervisor):
            folder.mkdir(mode=0o700 if folder == run.supervisor else 0o755)
        _point_latest(store.resolve(), run)
    except OSError as error:
        raise UsageError(f"store folder {str(store)!r} cannot be written: {error}") from None
    return run


def _point_latest(store: Path, run: RunPaths) -> None:
    """Replace the link in one step, so that two verifiers at once leave one good link."""
    fresh = store / f".{LATEST}-{_unique()}"
    fresh.symlink_to(run.path.relative_to(store))
    fresh.replace(store / LATEST)


def _unique() -> str:
    """A name that no other verifier has; all that run in private worlds have the same pid."""
    return os.urandom(8).hex()


def open_run(folder: Path) -> RunPaths:
    """Find the run folder that the caller named.

    Raises:
        UsageError: It is no run folder.
    """
    run = RunPaths(folder.resolve())
    if not run.path.is_dir():
        raise UsageError(f"no run folder {str(folder)!r}; name one, for example store/{LATEST}")
    if not run.scenario.is_file():
        raise UsageError(f"{str(folder)!r} is not a run folder: it holds no scenario.json")
    return run
