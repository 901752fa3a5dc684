"""The chaos verifier for job systems: every attempt must be accounted for.

The six packages inside stand at the root of the repository. `verifier` drives everything else;
`checkers` judge what `histories` hold and never import `system`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Late: it takes 30 ms and 3 MiB, and each of many processes imports this package.
        from importlib.metadata import version

        return version("atleastonce")
