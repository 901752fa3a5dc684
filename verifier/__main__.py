"""`python -m atleastonce.verifier` is the command `verify`."""

from .cli import main

main()
