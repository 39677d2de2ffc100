"""The release of this client."""

__version__ = "0.2.0"
