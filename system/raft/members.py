"""Who belongs to a cluster, as CONFIG entries and checkpoints carry it.

Voters elect and commit; learners receive the log and count for nothing until they are promoted.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .messages import Number


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What else the cluster knows of a member; the core only compares it.

    Attributes:
        name: The member.
        incarnation: Identity of its data directory; empty when unknown.
        address: Where its peers reach it; empty when they know from their configuration.
    """

    name: str
    incarnation: str = ""
    address: str = ""


class Members(msgspec.Struct, frozen=True, array_like=True):
    """A membership. All parts are sorted by name, so equal ones have equal bytes.

    Attributes:
        voters: Servers that elect and commit.
        learners: Servers that only receive.
        known: What is known of some of them.
    """

    voters: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()
    known: tuple[Known, ...] = ()

    @property
    def servers(self) -> tuple[str, ...]:
        """All members, voters first."""
        return self.voters + self.learners

    def known_of(self, name: str) -> Known:
        """Return what is known of a server, which may be nothing."""
        for known in self.known:
            if known.name == name:
                return known
        return Known(name)

    def with_learner(self, known: Known) -> Members:
        """Return this membership with a learner more; a member keeps its place."""
        learners = self.learners
        if known.name not in self.servers:
            learners = tuple(sorted((*learners, known.name)))
        return Members(self.voters, learners, _with_known(self.known, known))

    def recorded(self, facts: tuple[Known, ...]) -> Members:
        """Return this membership with what is told of members whose incarnation was unknown."""
        all_known = self.known
        for known in facts:
            before = self.known_of(known.name)
            if known.name in self.servers and not before.incarnation:
                address = known.address or before.address
                all_known = _with_known(all_known, Known(known.name, known.incarnation, address))
        return Members(self.voters, self.learners, all_known)

    def promoted(self, name: str) -> Members:
        """Return this membership with the learner `name` as a voter."""
        assert name in self.learners, f"members: {name} to promote is no learner of {self!r}"
        learners = tuple(learner for learner in self.learners if learner != name)
        return Members(tuple(sorted((*self.voters, name))), learners, self.known)

    def without(self, name: str) -> Members:
        """Return this membership without a member."""
        return Members(
            tuple(voter for voter in self.voters if voter != name),
            tuple(learner for learner in self.learners if learner != name),
            tuple(known for known in self.known if known.name != name),
        )


def _with_known(all_known: tuple[Known, ...], known: Known) -> tuple[Known, ...]:
    kept = [other for other in all_known if other.name != known.name]
    if known.incarnation or known.address:
        kept.append(known)
    return tuple(sorted(kept, key=lambda other: other.name))


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """What a state machine on disk holds.

    Attributes:
        index: The last entry in it; 0 when it is empty.
        term: The term of that entry.
        members: The membership in force there.
    """

    index: Number = 0
    term: Number = 0
    members: Members = Members()


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Members]] = msgspec.msgpack.Decoder(Members)


def encode_members(members: Members) -> bytes:
    """Return the data of the CONFIG entry that says `members`."""
    return _ENCODER.encode(members)


def decode_members(data: bytes) -> Members:
    """Return the membership that a CONFIG entry says.

    Raises:
        ValueError: The data is no membership with at least one voter, or names a server twice.
    """
    try:
        members = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a membership: {error}") from error
    names = members.servers
    if not members.voters:
        raise ValueError("a membership without voters")
    if len(set(names)) != len(names):
        raise ValueError(f"a membership that names a server twice: {', '.join(names)}")
    return members
