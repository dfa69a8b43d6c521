"""What tbq raises. Everything derives from :class:`TbqError`."""


class TbqError(Exception):
    """Base of every exception that tbq raises on purpose."""


class ArgumentError(TbqError, ValueError):
    """An argument is wrong; the message names it, what was expected, what came and what to do."""


class MissingDependencyError(TbqError, ImportError):
    """An optional part was asked for that is not installed; the message says what to install."""


class Transient(TbqError):  # noqa: N818 - not an error of the program, and short to raise
    """What stopped a run has nothing to do with theta: a licence, a server, a full disk. Raise it in your function.

    The run is neither counted nor learned from: ``tbq.infer`` waits, and makes it again.
    """


class SimulatorError(TbqError):
    """A run of an external simulator gave no usable output; the message says what was seen."""


class ProgramError(SimulatorError):
    """The program ended with an exit code other than zero."""


class ProgramUnavailableError(ProgramError, Transient):
    """The program could not be started, or ended with an exit code that was named as transient."""


class OutputError(SimulatorError):
    """The output is missing, or not the numbers that were expected."""


class SimulatorTimeoutError(SimulatorError, TimeoutError):
    """The simulator took longer than it may."""


class ServerError(SimulatorError):
    """The server was reached and reported an error."""


class ServerUnreachableError(SimulatorError, Transient, ConnectionError):
    """The server could not be reached, however often it was tried."""
