"""What workloads that run nodes alone are judged by: rules by name, and a few sizes of the run."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .contract import ContractError
from .verdict import Json

STALLED: Final = "stalled"
STALLED_SENTENCE: Final = "with every fault over, a node acknowledged no write for 12 s"

QUEUE_RULES: Final[dict[str, str]] = {
    "lost": "an enqueue was acknowledged, and after the drain no delivery of it was ever acked",
    "unexpected": "a message was delivered that nobody enqueued, or whose enqueue certainly failed",
    "acked-twice": "two acks of one message were both carried out",
    "redelivered-after-ack": "a pop that began after a message's ack was answered delivered it",
    "lease-overlap": "two deliveries of one message had their leases at the same time",
    "offset-value-mismatch": "one offset held two messages, or one message stood at two offsets",
    "pop-internal-gap": "one pop's messages of a partition were not contiguous",
    "pop-skip": "a pop began above everything that could have been acked",
    "payload-mismatch": "a message arrived with another payload than it was enqueued with",
    "ack-not-recalled": "a repeated ack was refused, though its lease was the last one released",
    "claim-left-behind": "a message's attempt counts a claim that no pop can have held",
    STALLED: STALLED_SENTENCE,
}

LOG_RULES: Final[dict[str, str]] = {
    "lost-write": "an acknowledged record below others that were read was never read by anyone",
    "unseen": "an acknowledged record is missing from a node's final reads",
    "duplicate": "one record was appended at two offsets",
    "inconsistent-offsets": "one offset held two records",
    "G1a": "a record was read whose send certainly failed",
    "G0": "two transactions are in different orders in different partitions",
    "nonmonotonic-send": "one client's later send got the lower offset",
    "int-nonmonotonic-send": "one transaction's later record got the lower offset",
    "int-send-skip": "one transaction's records of a partition have another record between them",
    "poll-skip": "a client's poll left out a record after what it had read",
    "nonmonotonic-poll": "a client's poll went back behind what it had read or been told",
    "int-poll-skip": "one poll left out a record between two that it returned",
    "int-nonmonotonic-poll": "one poll returned records out of order",
    "offset-gap": "a poll's records were not contiguous from the offset that was asked for",
    "record-mismatch": "a record's id does not name its partition's key and its value",
    "empty-below-hwm": "nothing was returned below the reported high watermark",
    "torn": "a transaction was visible in part",
    STALLED: STALLED_SENTENCE,
}

CLAIM_RULES: Final[dict[str, str]] = {
    "two-winners": "two clients were told that they had won one key",
    "not-the-winner": "a read or a loser was told another value than the winner's",
    "value-from-nowhere": "a key had a value that nobody put, or whose claim certainly failed",
    "absent-after-claim": "a key was absent after somebody had been told its value",
    STALLED: STALLED_SENTENCE,
}

BROKER_RULES: Final[dict[str, dict[str, str]]] = {
    "queue": QUEUE_RULES,
    "log": LOG_RULES,
    "claim": CLAIM_RULES,
}


class BrokerContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resolved contract; `scenario.json` stores it whole.

    Attributes:
        name: Whose rules hold.
        nodes: How many nodes must have been read at the end (`log`, `claim`).
        lease_s: Lease of a pop (`queue`).
        clock_slack_s: Two readings of the clock may differ by this.
        witnesses_max: Witnesses that a verdict carries for each rule; all violations are counted.
    """

    name: Literal["queue", "log", "claim"]
    nodes: int = 3
    lease_s: float = 3.0
    clock_slack_s: float = 0.005
    witnesses_max: int = 20

    @property
    def rules(self) -> dict[str, str]:
        """The rules, a sentence each."""
        return BROKER_RULES[self.name]

    def to_json(self) -> dict[str, Json]:
        """Return the contract as the object that `scenario.json` holds."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


def broker_contract_from_json(plain: dict[str, Json]) -> BrokerContract:
    """Turn the object that `scenario.json` holds back into a contract; raises ContractError."""
    try:
        return msgspec.convert(plain, BrokerContract)
    except msgspec.ValidationError as error:
        raise ContractError(f"contract: {error}") from error
