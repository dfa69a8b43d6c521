"""The options of a run: those of the engine, and how the runs are made and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

from tbq.problem.options import EngineOptions, Option
from tbq.run.progress import Progress
from tbq.run.warm_start import WarmStart
from tbq.simulate.pool import ExecutorLike


class SessionOptions(EngineOptions, total=False):
    """Of a run whose simulator is in the user's hands."""

    seed: Annotated[int | None, Option(None, "Makes the run repeatable.", least=0)]
    rng: Annotated[
        int | np.random.Generator | None,
        Option(None, "In place of ``seed``: a whole number, or a generator from which one is drawn."),
    ]
    journal: Annotated[
        str | Path | None,
        Option(
            None,
            "A folder that makes the run durable: call again with the same arguments, and it goes on where it was.",
        ),
    ]
    warm_start: Annotated[
        WarmStart | None,
        Option(
            None,
            "Earlier evaluations to start from, in place of the initial runs: the folder of a journal, a "
            ":class:`tbq.Result` or a list. The prior may be another, and the data too where outputs were stored. "
            'With a coarse model also ``{"coarse": ...}``, for runs of that model alone.',
        ),
    ]
    retry_failed: Annotated[
        bool,
        Option(
            False,
            "Forget the failures of the journal, whose points are run again; of ``warm_start``, leave them out.",
        ),
    ]


class RunOptions(SessionOptions, total=False):
    """Of a run that is made here."""

    batch_size: Annotated[int, Option(1, "Runs in flight; each point knows of those that are out.", least=1)]
    executor: Annotated[
        ExecutorLike | None,
        Option(
            None,
            "A ``concurrent.futures.Executor`` (threads, processes, Dask, MPI), or a function that makes one, so that "
            "a pool that breaks is made anew. Without one a batch is run here, one by one.",
        ),
    ]
    vectorized: Annotated[
        bool,
        Option(False, "Whether the log-likelihood takes a 2-D array, a row for each point, and returns a 1-D one."),
    ]
    timeout: Annotated[
        float | None,
        Option(
            None,
            "Seconds that one call of the log-likelihood may take. Each then runs in a process of its own, which is "
            "ended with all that it started when its time is up; that costs the start of a process per run.",
            above=0.0,
        ),
    ]
    retries: Annotated[
        int,
        Option(
            0,
            "How often a run that failed, or was too slow, is tried again. One whose worker died always is, once.",
            least=0,
        ),
    ]
    outage_after: Annotated[
        tuple[float, float],
        Option(
            (5, 8),
            "Failures in a row that say the same, whatever their theta, from which on they count as an outage of the "
            "simulator: before any run succeeded, and later. ``inf`` is never.",
        ),
    ]
    patience: Annotated[
        float,
        Option(
            3600.0,
            "Seconds that an outage is waited for, with tries at growing intervals: refused connections, a program "
            "that does not start, a :class:`tbq.Transient` that your function raised, failures alike. Then the run "
            "ends (``Stop.PAUSED``), and its journal is ready to go on. Runs that an outage stopped do not count.",
            least=0,
        ),
    ]
    progress: Annotated[
        Progress,
        Option(
            "auto",
            'How the run stands: ``"rich"``, a panel that changes; ``"plain"``, a line at every stage and every few '
            'minutes; ``"notebook"``, an output that changes; ``False``, nothing. The logger ``tbq`` has the lines at '
            "level INFO in any case.",
            '``"auto"``: the panel on a terminal, the notebook\'s in one, else nothing.',
        ),
    ]
