"""The algorithm, state in and state out: ``init`` a run, ``ask`` for points, ``tell`` what came of them, conclude."""

from tbq.engine.conclusion import conclude
from tbq.engine.learn import forget, tell
from tbq.engine.propose import ask, remember
from tbq.engine.state import State, init

__all__ = ["State", "ask", "conclude", "forget", "init", "remember", "tell"]
