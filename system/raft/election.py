"""Pre-votes, votes, and who may ask for them (Raft §5.2, §5.4.1; thesis §9.6, §4.2.3)."""

from __future__ import annotations

from .events import Role
from .messages import RequestVote, VoteReply
from .state import RaftState


class Election:
    """One server's part in elections, as a voter and as a candidate."""

    __slots__ = ("_self_vote_sequence", "_state", "_votes")

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._votes: list[str] = []
        self._self_vote_sequence = 0

    def time_out(self) -> bool:
        """The election timeout has passed without a leader. Returns whether this server won."""
        state = self._state
        if not state.may_campaign:
            state.become_follower(state.term, None)
            state.restart_election_timer()
            return False
        if not state.peers:
            return self.campaign(transfer=False)
        state.role = Role.PRE_CANDIDATE
        state.leader = None
        state.restart_election_timer()
        self._votes = [state.node_id]
        self._ask(state.term + 1, pre_vote=True, transfer=False, after=0)
        return self._has_won()

    def end_probation(self) -> None:
        """This server may vote and stand for election from now on.

        In a cluster that starts for the first time nobody can have a leader whose sign of life is
        to be awaited: one voter after the other stands soon, in the order of their names.
        """
        state = self._state
        state.on_probation = False
        is_new = not (state.term or state.log.last_index or state.leader)
        if is_new and state.may_campaign:
            place = sorted(state.membership.members.voters).index(state.node_id)
            soon_us = state.now_us + (place + 1) * state.heartbeat_us // 2
            state.election_deadline_us = min(state.election_deadline_us, soon_us)

    def campaign(self, transfer: bool) -> bool:
        """Stand for election in a new term. Returns whether this server won at once (never)."""
        state = self._state
        state.role = Role.CANDIDATE
        state.leader = None
        state.restart_election_timer()
        state.change_hard_state(state.term + 1, state.node_id)
        self._votes = []
        self._self_vote_sequence = state.write_sequence
        after = 0 if "vote-not-persisted" in state.bugs else self._self_vote_sequence
        self._ask(state.term, pre_vote=False, transfer=transfer, after=after)
        return False

    def _ask(self, term: int, pre_vote: bool, transfer: bool, after: int) -> None:
        log = self._state.log
        request = RequestVote(term, log.last_index, log.last_term, pre_vote, transfer)
        for peer in self._state.peers:
            self._state.send(peer, request, after)

    def on_durable(self) -> bool:
        """Count this server's own vote, if it has one, once durable. Returns whether that won."""
        state = self._state
        if (
            state.role is not Role.CANDIDATE
            or state.node_id in self._votes
            or state.durability.settled < self._self_vote_sequence
        ):
            return False
        self._votes.append(state.node_id)
        return self._has_won()

    def _has_won(self) -> bool:
        """Whether the votes of the current campaign decide it; a pre-vote leads to a campaign."""
        voters = self._state.membership.members.voters
        if sum(vote in voters for vote in self._votes) < self._state.quorum:
            return False
        if self._state.role is Role.PRE_CANDIDATE:
            return self.campaign(transfer=False)
        return True

    def on_reply(self, sender: str, reply: VoteReply) -> bool:
        """Count a vote. Returns whether it won the election."""
        state = self._state
        if reply.term > state.term and not (reply.pre_vote and reply.granted):
            state.become_follower(reply.term, None)
            return False
        if reply.pre_vote:
            counts = state.role is Role.PRE_CANDIDATE and reply.term == state.term + 1
        else:
            counts = state.role is Role.CANDIDATE and reply.term == state.term
        if not counts or not reply.granted or sender in self._votes:
            return False
        self._votes.append(sender)
        return self._has_won()

    def on_request(self, sender: str, request: RequestVote) -> None:
        """Answer a candidate, or ignore it while a leader is known to be alive."""
        state = self._state
        if state.on_probation:
            return
        if request.term < state.term:
            # A candidate of an old term learns of the current one, or it would ask for ever.
            state.reply(sender, VoteReply(state.term, False, request.pre_vote))
            return
        if self._protects_leader() and not request.transfer:
            return
        if request.pre_vote:
            granted = self._may_grant(sender, request)
            term = request.term if granted else state.term
            state.reply(sender, VoteReply(term, granted, True))
            return
        if request.term > state.term:
            state.become_follower(request.term, None)
        if not self._may_grant(sender, request):
            state.reply(sender, VoteReply(state.term, False, False))
            return
        if state.voted_for != sender:
            state.change_hard_state(state.term, sender)
        state.election_deadline_us = state.now_us + state.election_timeout_us
        vote = VoteReply(state.term, True, False)
        if "vote-not-persisted" in state.bugs:
            state.send(sender, vote)
        else:
            state.reply(sender, vote)

    def _protects_leader(self) -> bool:
        """Whether this server leads, or has heard from its leader so recently that it lives."""
        state = self._state
        if not state.config.check_quorum or state.leader is None:
            return False
        if state.role is Role.LEADER:
            return True
        return state.now_us - state.leader_contact_us < state.election_us_min

    def _may_grant(self, sender: str, request: RequestVote) -> bool:
        state = self._state
        free = request.term > state.term or state.voted_for == sender
        free = free or (state.voted_for is None and state.leader is None)
        free = free or "double-vote" in state.bugs
        if "no-up-to-date-check" in state.bugs:
            return free
        return free and state.log.is_up_to_date(request.last_log_index, request.last_log_term)
