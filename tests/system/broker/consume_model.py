"""The consume rules once more, written naively and apart from the product.

One list of names a partition, one record a (partition, group), and loops over offsets. It knows
nothing of readiness, claims, or entries; where several claims would be right (the order of the
partitions) it checks the product's choice and follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SECOND = 1_000_000

Ack = tuple[str, str]
"""(name, status)"""

Expected = tuple[bool, str, bool, bool, bool]
"""(success, word of the error, lease released, dlq, noop)"""


@dataclass
class Row:
    """One cursor, as the reference describes it."""

    committed: int = -1
    lease: str = ""
    first: int = -1
    last: int = -1
    expires: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    spent: int = 0
    contacted: bool = False
    old_lease: str = ""
    old_first: int = -1
    old_last: int = -1
    old_answers: dict[str, tuple[str, Expected]] = field(default_factory=dict)
    undo: tuple[int, dict[int, int]] = (-1, {})

    def is_live(self, now: int) -> bool:
        return self.lease != "" and now < self.expires

    def repeated_last(self) -> int:
        """Last offset that was delivered as often as the next one; the cursor if that never was."""
        last = self.committed
        first_count = self.counts.get(last + 1)
        while first_count and self.counts.get(last + 1) == first_count:
            last += 1
        return last

    def repeats_max(self) -> int | None:
        following = [offset for offset in self.counts if offset > self.committed]
        before_counted = min(following, default=0) - self.committed - 1
        return max(self.repeated_last() - self.committed, before_counted) or None

    def forget_through(self, offset: int) -> None:
        self.counts = {o: count for o, count in self.counts.items() if o > offset}


@dataclass
class Model:
    """All partitions and cursors of one queue.

    Names stay in their log for good, so that an offset is a place in it; `starts` says which are
    retained. Times are microseconds.
    """

    retry_limit: int
    delay_s: int = 0
    window_s: int = 0
    max_age_s: int = 0
    logs: dict[str, list[str]] = field(default_factory=dict)
    created: dict[str, list[int]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    dead: list[tuple[str, str, str, int]] = field(default_factory=list)

    @property
    def options(self) -> dict[str, int]:
        """The queue's, as the product names them."""
        return {
            "retryLimit": self.retry_limit,
            "delayedProcessing": self.delay_s,
            "windowBuffer": self.window_s,
            "maxWaitTimeSeconds": self.max_age_s,
        }

    def row(self, partition: str, group: str) -> Row:
        fresh = Row(self.starts.get(partition, 0) - 1)
        return self.rows.setdefault((partition, group), fresh)

    def push(self, partition: str, name: str, now: int = 0) -> str:
        log = self.logs.setdefault(partition, [])
        if name in log:
            return "duplicate"
        log.append(name)
        self.created.setdefault(partition, []).append(now)
        return "queued"

    def visible(self, partition: str, now: int) -> int:
        """How many messages of a log are not hidden by a delay, or by a write just now."""
        times = self.created.get(partition, [])
        if times and now < times[-1] + self.window_s * SECOND:
            return 0
        return sum(1 for time in times if time + self.delay_s * SECOND <= now)

    def hold_ends(self, group: str, now: int) -> list[int]:
        """When the next messages of this group's free partitions come out of hiding."""
        ends = []
        for partition, log in self.logs.items():
            row = self.row(partition, group)
            wanted = row.committed + 1
            if not row.is_live(now) and self.visible(partition, now) <= wanted < len(log):
                times = self.created[partition]
                ends.append(
                    max(times[wanted] + self.delay_s * SECOND, times[-1] + self.window_s * SECOND)
                )
        return ends

    def retain(self, now: int) -> None:
        """Let go of what is too old, but of nothing that a live lease holds."""
        for partition, times in self.created.items():
            rows = [row for (name, _), row in self.rows.items() if name == partition]
            held = [row.committed + 1 for row in rows if row.is_live(now)]
            start = self.starts.get(partition, 0)
            while (
                start < len(times)
                and now - times[start] > self.max_age_s * SECOND
                and start not in held
            ):
                start += 1
            self.starts[partition] = start
            for row in rows:
                if row.committed < start - 1:
                    row.committed, row.lease, row.spent = start - 1, "", 0
                    row.forget_through(start - 1)

    def seek(self, partition: str, group: str, to_end: bool) -> None:
        """An operator puts a cursor somewhere."""
        start, end = self.starts.get(partition, 0), len(self.logs[partition])
        self.rows[partition, group] = Row((end if to_end else start) - 1, contacted=True)

    def deliver(self, partition: str, group: str, size: int) -> None:
        """Commit at delivery."""
        row = self.row(partition, group)
        row.committed += size
        row.lease, row.spent, row.contacted = "", 0, True
        row.forget_through(row.committed)

    def repeat(self, lease: str, now: int, until: int) -> dict[str, tuple[str, list[str], int]]:
        """The live rest of a claim, whose lease begins anew; by partition."""
        found = {}
        for (partition, group), row in self.rows.items():
            if row.lease == lease and row.is_live(now):
                row.expires = max(row.expires, until)
                first = max(row.committed + 1, row.first)
                names = self.logs[partition][first : row.last + 1]
                found[partition] = (group, names, row.counts[first])
        return found

    def ready(self, group: str, now: int) -> dict[str, list[str]]:
        """Partitions that a pop may claim, with what it may take of each.

        One number must be true of all messages of a delivery: it ends where their counts change.
        """
        return {
            partition: log[self.row(partition, group).committed + 1 : self.visible(partition, now)][
                : self.row(partition, group).repeats_max()
            ]
            for partition, log in self.logs.items()
            if not self.row(partition, group).is_live(now)
            and self.visible(partition, now) > self.row(partition, group).committed + 1
        }

    def claim(self, partition: str, group: str, size: int, lease: str, now: int, until: int) -> int:
        """Deliver; returns the attempt."""
        row = self.row(partition, group)
        first = row.committed + 1
        row.undo = (row.committed, dict(row.counts))
        attempt = row.counts.get(first, 0) + 1
        row.counts |= dict.fromkeys(range(first, first + size), attempt)
        row.lease, row.first, row.last, row.expires = lease, first, first + size - 1, until
        row.contacted = True
        return attempt

    def take_back(self, lease: str) -> None:
        for row in self.rows.values():
            if row.lease == lease:
                row.lease = ""
                if row.committed == row.undo[0]:
                    row.counts = dict(row.undo[1])

    def extend(self, lease: str, seconds: int, now: int) -> int:
        renewed = 0
        for row in self.rows.values():
            if row.lease == lease and row.is_live(now):
                row.expires = max(row.expires, now + seconds * SECOND)
                renewed += 1
        return renewed

    def ack(
        self, partition: str, group: str, lease: str, acks: list[Ack], now: int, recalls: bool
    ) -> list[Expected]:
        row, log = self.row(partition, group), self.logs.get(partition, [])
        if not row.contacted:
            return [(False, "consumer", False, False, False)] * len(acks)
        if lease and not (row.lease == lease and row.is_live(now)):
            return [self._again(row, log, lease, ack, recalls) for ack in acks]
        edge = row.last if lease else len(log) - 1
        where = [
            log.index(name) if name in log and log.index(name) <= edge else None for name, _ in acks
        ]
        status: dict[int, list[str]] = {}
        for (_, said), offset in zip(acks, where, strict=True):
            if offset is not None and offset > row.committed:
                status.setdefault(offset, []).append(said)
        before, held = row.committed, row.lease != ""
        live_lease = (row.lease, row.first, row.last) if row.is_live(now) else None
        filed = self._settle(row, status, partition, group, log)
        released = held and row.lease == ""
        answers = []
        for (_, said), offset in zip(acks, where, strict=True):
            if offset is None:
                answers.append((False, "unresolv", False, False, False))
            elif offset > before:
                answers.append((True, "", released, offset in filed, False))
            elif said == "completed":
                answers.append((True, "", released, False, True))
            else:
                answers.append((False, "committed", False, False, False))
        if released and live_lease is not None:
            row.old_lease, row.old_first, row.old_last = live_lease
            signals = any(
                said != "completed" for said in [s for of_one in status.values() for s in of_one]
            )
            row.old_answers = {
                name: (said, answer)
                for (name, said), answer in zip(acks, answers, strict=True)
                if signals and answer[0]
            }
        return answers

    def _settle(
        self, row: Row, status: dict[int, list[str]], partition: str, group: str, log: list[str]
    ) -> set[int]:
        signals = [offset for offset, said in status.items() if set(said) - {"completed"}]
        head = min(signals, default=None)
        below = [o for o in status if (head is None or o < head) and o not in signals]
        prefix = max([row.committed, *below])
        if head is None:
            self._complete(row, prefix)
            return set()
        said = status[head]
        spent = row.spent >= self.retry_limit
        if "dlq" not in said and (("failed" in said and not spent) or "failed" not in said):
            row.spent += "failed" in said
            row.committed, row.lease = prefix, ""
            row.forget_through(prefix)
            return set()
        filed = set()
        offset = head
        while offset in status and (offset == head or set(status[offset]) != {"retry"}):
            if {"dlq", "failed"} & set(status[offset]):
                filed.add(offset)
                self.dead.append((partition, group, log[offset], row.spent * (offset == head)))
            elif "retry" in status[offset]:
                break
            offset += 1
        row.forget_through(max(offset - 1, row.last if row.lease else row.repeated_last()))
        row.committed, row.lease, row.spent = offset - 1, "", 0
        return filed

    def _complete(self, row: Row, through: int) -> None:
        if through == row.committed:
            return
        repeated = row.repeated_last()
        end = row.last if row.lease else repeated
        row.committed = through
        row.forget_through(through)
        if through >= end:
            row.lease, row.spent = "", 0

    def _again(self, row: Row, log: list[str], lease: str, ack: Ack, recalls: bool) -> Expected:
        name, said = ack
        stale = (False, "lease", False, False, False)
        if not recalls or lease != row.old_lease:
            return stale
        known = row.old_answers.get(name)
        if known is not None and known[0] == said:
            return known[1]
        offset = log.index(name) if name in log else -1
        if said == "completed" and row.old_first <= offset <= min(row.old_last, row.committed):
            return (True, "", True, False, False)
        return stale
