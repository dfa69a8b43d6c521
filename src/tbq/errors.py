"""What tbq raises. Everything derives from :class:`TbqError`."""


class TbqError(Exception):
    """Base of every exception that tbq raises on purpose."""


class ArgumentError(TbqError, ValueError):
    """An argument is wrong; the message names it, what was expected, what came and what to do."""


class MissingDependencyError(TbqError, ImportError):
    """An optional part was asked for that is not installed; the message says what to install."""
