"""Which lane brings out which planted defect, in which profile, and the rule that names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Catch:
    """How a lane catches a planted defect.

    Attributes:
        bug: Its name.
        lane: The lane.
        profile: The profile.
        rule: The rule that names it.
        settings: Settings that bring it out, beside the lane's own.
    """

    bug: str
    lane: str
    profile: str
    rule: str
    settings: tuple[str, ...] = ()


CATCHES: Final[dict[str, Catch]] = {
    catch.bug: catch
    for catch in (
        Catch("retry-ack-on-graceful-stop", "stop-backlog", "fast", "uncharged-hand-back"),
        Catch("async-ack-unwritten", "master-kill-batch", "fast", "completed-twice"),
        Catch("timeout-counts-as-crash", "job-timeout", "plain", "lane-time"),
        Catch("crash-charges-prefetched", "worker-kill", "fast", "uncharged-hand-back"),
        Catch("hand-back-twice", "worker-kill", "fast", "completed-twice"),
        Catch("hand-back-after-expiry", "worker-kill", "fast", "completed-twice"),
        Catch("lease-ignored-on-pop", "fork-in-job", "plain", "overlap"),
        Catch("dead-letter-without-payload", "exception-retry", "plain", "store-mismatch"),
        Catch("forked-child-stops-renewal", "fork-in-job", "plain", "lane-workers"),
        Catch("broker-asked-before-stop", "stop-frozen", "plain", "lane-workers"),
        Catch("circuit-closed-by-sibling", "crash-loop", "plain", "lane-burst"),
        Catch("failing-pops-count-as-capacity", "probe-broker-hung", "plain", "lane-probe"),
        Catch("restart-keeps-old-code", "queue-restart", "plain", "stale-code"),
        Catch("pop-ahead-always", "trickle", "fast", "lane-pops"),
        Catch("poison-left-alone", "poison-messages", "plain", "lane-time"),
        Catch("string-timeout-refused", "string-timeout", "plain", "lane-workers"),
        Catch("error-text-unclean", "binary-failure", "plain", "lane-workers"),
    )
}
