"""Gathers what the live view shows, from what is at hand: nothing is asked for its sake."""

from __future__ import annotations

from pathlib import Path

from ..histories.errors import DamagedEvidenceError
from ..histories.faults import group_faults, read_faults
from ..histories.ops import DISPATCH
from .cluster import Cluster
from .live import Board
from .progress import AttemptTail
from .recorder import Recorder


class BoardMaker:
    """Makes a `Board`; a look costs one directory listing and one small file."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        tail: AttemptTail,
        faults: Path,
        has_jobs: bool = True,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._tail = tail
        self._faults = faults
        self._faults_size = -1
        self._has_jobs = has_jobs
        self._open: tuple[str, ...] = ()

    def look(self, phase: str, elapsed_s: float) -> Board:
        """Describe this moment."""
        cluster, count = self._cluster, self._recorder.count
        statuses = [each.watch.read() for each in cluster.supervisors]
        progress = self._tail.poll()
        ended = sum(count(DISPATCH, type_) for type_ in ("ok", "fail", "info"))
        return Board(
            phase=phase,
            elapsed_s=elapsed_s,
            nodes=tuple(
                cluster.watch.row(node, cluster.is_node_alive(node)) for node in cluster.nodes()
            ),
            workers=sum(len(status.workers) for status in statuses if status),
            running=sum(each.watch.running() for each in cluster.supervisors),
            faults=self._open_faults(),
            dispatched=self._recorder.new_jobs,
            open_dispatches=count(DISPATCH, "invoke") - ended,
            started=progress.started,
            completed=progress.completed,
            retried=progress.retried,
            given_up=progress.given_up,
            operations=() if self._has_jobs else self._operations(),
        )

    def _operations(self) -> tuple[str, ...]:
        """Say how many operations of each kind ended how."""
        tallies = self._recorder.tallies()
        told = [
            f"{f} " + " ".join(f"{type_} {count}" for type_, count in sorted(ends.items()))
            for f, ends in sorted(tallies.items())
        ]
        return tuple(told) or ("no operation yet",)

    def _open_faults(self) -> tuple[str, ...]:
        """Return the faults that were opened and not healed; read anew only when the file grew."""
        size = self._faults.stat().st_size if self._faults.exists() else 0
        if size != self._faults_size:
            self._faults_size = size
            try:
                faults = group_faults(read_faults(self._faults))
            except (DamagedEvidenceError, ValueError):
                return self._open
            self._open = tuple(f"{f.kind} {f.target}" for f in faults if f.healed_ns is None)
        return self._open
