"""The version, for those who may not import the package itself."""

__version__ = "0.10.0"
