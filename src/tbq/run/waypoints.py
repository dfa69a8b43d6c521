"""Records of a journal from which a replay can go on: what was learned before them need not be learned again.

Outputs are learned anew every few runs, as if nothing had been learned before. What the state has then follows from the
runs and from a few numbers, which the record of the next points holds. Replaying from there gives the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from tbq.engine.records import Record, Waypoint
from tbq.problem.records import Plain, number


def record_of(waypoint: Waypoint | None) -> Plain:
    """What the record of the next points has more; nothing where there is no waypoint.

    Of the history only its length: each of its beliefs is in the record of the points that went out with it.
    """
    if waypoint is None:
        return {}
    return {
        "waypoint": {
            "history": len(waypoint.history),
            "squared_z": [number(v) for v in waypoint.squared_z],
            "satisfied": waypoint.satisfied,
            "compared_at": waypoint.compared_at,
            "check_error": number(waypoint.check_error),
        }
    }


def last(records: Sequence[Plain], history: Sequence[Record]) -> tuple[int, Waypoint] | None:
    """The last record from which a replay can go on, by its index, after updates with this history; None if none.

    A belief that no points went out with is in no record: waypoints after it are passed over.
    """
    beliefs, found = list(history), None
    end = max((i for i, r in enumerate(records) if "waypoint" in r), default=-1)
    for i, record in enumerate(records[: end + 1]):
        belief, waypoint = record.get("belief"), record.get("waypoint")
        if belief is not None:
            again = beliefs and belief["n_evaluations"] == beliefs[-1].n_evaluations  # by coarse runs
            beliefs = [*(beliefs[:-1] if again else beliefs), _belief(belief)]
        if waypoint is not None and waypoint["history"] == len(beliefs):
            found = i, _waypoint(waypoint, beliefs)
    return found


def _waypoint(w: Plain, beliefs: Sequence[Record]) -> Waypoint:
    squared_z = tuple(float(v) for v in w["squared_z"])
    return Waypoint(tuple(beliefs), squared_z, int(w["satisfied"]), int(w["compared_at"]), float(w["check_error"]))


def _belief(b: Plain) -> Record:
    kinds: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str}
    return Record(**{f.name: kinds[str(f.type)](b[f.name]) for f in fields(Record)})
