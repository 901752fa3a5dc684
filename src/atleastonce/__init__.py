"""The chaos verifier for job systems: every attempt must be accounted for.

The six packages inside stand at the root of the repository. `verifier` drives everything else;
`checkers` judge what `histories` hold and never import `system`.
"""

from importlib.metadata import version

__version__ = version("atleastonce")
