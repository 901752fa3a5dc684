"""The system under test: a Raft broker, its job driver and its worker supervisor.

Knows nothing of the verifier, and imports nothing else of this project.
"""
