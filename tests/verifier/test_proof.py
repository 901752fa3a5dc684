"""The proof of health at the end of a plan says what is missing from it."""

from __future__ import annotations

from atleastonce.verifier.proof import Proof


def test_a_system_that_is_well_with_nothing_open_lacks_nothing() -> None:
    assert Proof(healed=True, well=True).problems([]) == []


def test_a_fault_that_is_still_open_and_a_node_that_is_silent_are_named() -> None:
    proof = Proof(after_s=15, nodes={"n1": "leader", "n2": "silent"}, masters={"supervisor": False})
    assert proof.problems(["kill-leader-1"]) == [
        "fault kill-leader-1 was never healed",
        "15 s after the last fault the system was not well: n1 leader, n2 silent; supervisor down",
    ]
