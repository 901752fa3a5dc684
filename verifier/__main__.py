"""`python -m atleastonce.verifier` is the command `verify`."""

from .entry import main

main()
