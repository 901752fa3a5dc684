"""Bodies of the membership routes, asked and answered."""

from __future__ import annotations

from typing import Annotated

import msgspec

NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

NodeName = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN, examples=["n4"])]


class AddForm(msgspec.Struct):
    """Which server is to be taken in as a learner.

    Attributes:
        node: Its name.
        address: `IP:PORT` of its peer address; may be missing when this cluster's configuration
            names it.
    """

    node: NodeName
    address: str | None = None


class VotersForm(msgspec.Struct):
    """Which servers are to be the voters."""

    voters: list[NodeName]


class MemberBody(msgspec.Struct, rename="camel"):
    """One member, as the leader sees it.

    Attributes:
        node: Its name.
        role: `voter` or `learner`.
        leads: Whether it is the leader.
        address: Its peer address; null when each node has it from its own configuration.
        incarnation: The id of its data folder; null when it is not known yet.
        match_index: Up to where it holds the log; null until it has said so.
        lag: Entries that it lacks; null until that is known.
        last_heard_ms: How long ago it answered the leader; null for the leader itself.
        replaced: Whether a node of that name answers whose data folder is another one.
    """

    node: str
    role: str
    leads: bool
    address: str | None
    incarnation: str | None
    match_index: int | None
    lag: int | None
    last_heard_ms: int | None
    replaced: bool


class MembersBody(msgspec.Struct, rename="camel"):
    """The membership.

    Attributes:
        leader: Who leads.
        term: Since which term.
        index: The log entry that put the membership in force; 0 for that of the beginning.
        committed: Whether it is committed.
        members: Voters first.
    """

    leader: str
    term: int
    index: int
    committed: bool
    members: list[MemberBody]
