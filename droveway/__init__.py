"""The command line of droveway, and the views that join its packages. Nothing here computes a result."""

__all__ = ["__version__"]

__version__ = "0.1.0"
