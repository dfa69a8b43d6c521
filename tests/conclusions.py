"""Results of engines that a test drives itself."""

from tbq import engine
from tbq.result.result import Result


def result_of(state: engine.State) -> Result:
    return Result.of(engine.conclude(state))
