"""Live claims: which pop took which cursors under which lease, and what undoes it."""

from __future__ import annotations

from .changes import Changes
from .cursors import Cursor
from .lease import Position


class Claim:
    """One leased pop.

    Attributes:
        number: Minted by the machine, never reused; orders claims.
        lease_id: Its lease.
        request_id: The pop's, empty when it had none.
        held: Cursor number to (cursor, position before the claim), in order of the claim.
        answers: Askings that were answered with this claim and did not give it back, each with its
            last trial (see `commands.Pop`).
        is_received: Whether somebody used the lease, so that an answer certainly arrived.
    """

    __slots__ = ("answers", "held", "is_received", "lease_id", "number", "request_id")

    def __init__(
        self, number: int, lease_id: str, request_id: str, answers: dict[str, int]
    ) -> None:
        self.number = number
        self.lease_id = lease_id
        self.request_id = request_id
        self.held: dict[int, tuple[Cursor, Position]] = {}
        self.answers = answers
        self.is_received = False


class Claims:
    """All claims whose lease is still in some position, live or dead."""

    __slots__ = ("_by_lease", "_by_request", "_changes")

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._by_lease: dict[str, Claim] = {}
        self._by_request: dict[str, Claim] = {}

    def add(self, claim: Claim) -> None:
        """Remember a claim under its lease and its request."""
        self._changes.claims.add(claim.number, claim)
        self._by_lease[claim.lease_id] = claim
        if claim.request_id:
            self._by_request[claim.request_id] = claim

    def by_lease(self, lease_id: str) -> Claim | None:
        """The claim of a lease."""
        return self._by_lease.get(lease_id)

    def repeated(self, request_id: str, now_us: int) -> Claim | None:
        """The claim that an earlier pop with this request id made, while any of it is live."""
        claim = self._by_request.get(request_id) if request_id else None
        return claim if claim is not None and live_cursors(claim, now_us) else None

    def note(self, claim: Claim) -> None:
        """A claim that is known here has changed."""
        self._changes.claims.change(claim.number, claim)

    def drop(self, lease_id: str, cursor: Cursor) -> None:
        """A cursor no longer carries this lease; forget the claim when none does."""
        claim = self._by_lease[lease_id]
        del claim.held[cursor.number]
        if claim.held:
            self._changes.claims.change(claim.number, claim)
        else:
            self._changes.claims.drop(claim.number)
            del self._by_lease[lease_id]
            if self._by_request.get(claim.request_id) is claim:
                del self._by_request[claim.request_id]

    def summary(self) -> list[list[object]]:
        """All claims as plain values, for digests."""
        return [
            [
                claim.lease_id,
                claim.request_id,
                list(claim.answers.items()),
                claim.is_received,
                list(claim.held),
            ]
            for claim in self._by_lease.values()
        ]


def live_cursors(claim: Claim, now_us: int) -> list[Cursor]:
    """The cursors on which the claim's lease is live, in order of the claim."""
    return [
        cursor
        for cursor, _ in claim.held.values()
        if (lease := cursor.position.lease) is not None
        and lease.lease_id == claim.lease_id
        and lease.is_live(now_us)
    ]
