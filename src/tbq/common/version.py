"""The version of the package, which journals and files carry."""

__version__ = "0.1.0"
