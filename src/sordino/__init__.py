"""Sordino: federated learning in which every participant sets a privacy budget of their own."""

from sordino._version import __version__

__all__ = ["__version__"]
