"""Loading the application that the workers run."""

from ..jobs.loading import LoadError, load_application

__all__ = ["LoadError", "load_application"]
