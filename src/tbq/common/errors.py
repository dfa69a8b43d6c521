"""What tbq raises. Everything derives from :class:`TbqError`."""


class TbqError(Exception):
    """Base of every exception that tbq raises on purpose."""


class ArgumentError(TbqError, ValueError):
    """An argument is wrong; the message names it, what was expected, what came and what to do."""


class MissingDependencyError(TbqError, ImportError):
    """An optional part was asked for that is not installed; the message says what to install."""


class SimulatorError(TbqError):
    """A run of an external simulator gave no usable output; the message says what was seen."""


class ProgramError(SimulatorError):
    """The program could not be started, or ended with an exit code other than zero."""


class OutputError(SimulatorError):
    """The output is missing, or not the numbers that were expected."""


class SimulatorTimeoutError(SimulatorError, TimeoutError):
    """The simulator took longer than it may."""


class ServerError(SimulatorError):
    """The server was reached and reported an error."""


class ServerUnreachableError(SimulatorError, ConnectionError):
    """The server could not be reached, however often it was tried."""
