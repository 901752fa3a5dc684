"""What may stand before a handler: each ends the attempt itself, or calls the rest of the chain."""

from .overlapping import WithoutOverlapping
from .rate import RateLimited
from .skip import Skip
from .throttling import ThrottlesExceptions

__all__ = ["RateLimited", "Skip", "ThrottlesExceptions", "WithoutOverlapping"]
