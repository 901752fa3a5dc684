"""The switch's process: `python -m atleastonce.nemesis.switch CONTROL-DESCRIPTOR PLAN-JSON`."""

from __future__ import annotations

import signal
import socket
import sys

import msgspec
import trio

from ..namespaces import die_with_parent
from .control import Answer, Plan
from .switching import Switch


def main() -> None:
    """Open the ports, say so, and forward until the other end of the control socket is closed."""
    die_with_parent()
    # Ctrl-C is for the verifier, which ends the switch when the nodes have stopped.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    switch = Switch(msgspec.json.decode(sys.argv[2], type=Plan))
    control.send(msgspec.json.encode(Answer()))
    trio.run(switch.run, control)


main()
