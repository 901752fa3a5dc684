"""Queen's own Python client and its test suite, run against this broker.

`python -m tests.conformance` fetches both as the client's source distribution; nothing of them is
kept here. Not part of the ordinary tests: it needs a package index and some minutes.
"""
