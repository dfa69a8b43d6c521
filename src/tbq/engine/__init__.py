"""The algorithm, state in and state out: ``init`` a run, ``ask`` for points, ``tell`` what came of them, conclude."""

from tbq.engine.conclusion import conclude
from tbq.engine.learn import collect, forget, go_on, tell
from tbq.engine.propose import ask, due, remember
from tbq.engine.state import State, init
from tbq.engine.steering import steer

__all__ = ["State", "ask", "collect", "conclude", "due", "forget", "go_on", "init", "remember", "steer", "tell"]
