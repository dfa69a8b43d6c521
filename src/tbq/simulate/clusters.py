"""Clusters with a queue, as executors: Slurm and PBS by `dask-jobqueue <https://jobqueue.dask.org>`_, and submitit.

A job of the queue makes one run at a time, one after the other, until its walltime. What takes a job away (walltime,
``scancel``, a node that goes down) loses the run that it was at: that is made again by another job, as every lost run.
"""

from __future__ import annotations

import importlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tbq.common.arguments import whole
from tbq.common.errors import ArgumentError, MissingDependencyError, Transient
from tbq.common.words import described

_POLL = 0.2  # seconds between two looks at jobs
_INSTALL = "pip install 'tbq[cluster]'"


def slurm(
    jobs: int,
    *,
    walltime: str,
    memory: str = "4GB",
    cores: int = 1,
    queue: str | None = None,
    account: str | None = None,
    prelude: Sequence[str] = (),
    minimum: int | None = None,
    logs: str | Path | None = None,
    **options: Any,
) -> Callable[[], Executor]:
    """An executor of Slurm jobs: ``tbq.infer(..., executor=tbq.clusters.slurm(8, walltime="2:00:00"), batch_size=8)``.

    ``tbq`` runs where jobs can be submitted, a login node or a long job of its own that the nodes can reach.

    Parameters
    ----------
    jobs
        The most jobs at a time, each with one run at a time.
    walltime
        Of a job, as Slurm writes it. Should have room for several runs.
    memory, cores
        Of a job: what one run needs.
    queue, account
        Partition and account to submit to.
    prelude
        Commands of the job's shell before anything else, such as ``["module load calculix"]``.
    minimum
        How many jobs to keep when there is less to do; None keeps all.
    logs
        Folder for what jobs print.
    options
        Others of ``dask_jobqueue.SLURMCluster``: ``interface`` names the network that nodes reach us by,
        ``job_extra_directives`` are further lines for sbatch.

    Returns
    -------
    Callable
        Makes the executor, so that one that breaks is made anew. Jobs end with it; where we are killed, a minute later.

    Raises
    ------
    ArgumentError
        Where there is no ``sbatch``, or a number is none.

    Examples
    --------
    >>> modules = ["module load calculix"]
    >>> executor = tbq.clusters.slurm(8, walltime="02:00:00", cores=4, prelude=modules)  # doctest: +SKIP
    """
    _check("slurm", "sbatch", jobs, cores, minimum, prelude)
    own = {"walltime": walltime, "memory": memory, "queue": queue, "account": account, "job_cpu": cores}
    return _Factory("SLURMCluster", jobs, minimum, {**own, **_common(prelude, logs), **options})


def pbs(
    jobs: int,
    *,
    walltime: str,
    memory: str = "4GB",
    cores: int = 1,
    queue: str | None = None,
    account: str | None = None,
    prelude: Sequence[str] = (),
    minimum: int | None = None,
    logs: str | Path | None = None,
    **options: Any,
) -> Callable[[], Executor]:
    """An executor of PBS jobs, with the parameters of :func:`slurm`; others are of ``dask_jobqueue.PBSCluster``.

    Examples
    --------
    >>> executor = tbq.clusters.pbs(8, walltime="02:00:00", memory="8GB", queue="workq")  # doctest: +SKIP
    """
    _check("pbs", "qsub", jobs, cores, minimum, prelude)
    resources = f"select=1:ncpus={cores}:mem={memory}"
    own = {"walltime": walltime, "memory": memory, "queue": queue, "account": account, "resource_spec": resources}
    return _Factory("PBSCluster", jobs, minimum, {**own, **_common(prelude, logs), **options})


def _common(prelude: Sequence[str], logs: str | Path | None) -> dict[str, Any]:
    """One thread of Dask's for a run, whatever cores that has; no page for people to look at."""
    return {
        "cores": 1,
        "processes": 1,
        "job_script_prologue": list(prelude),
        "log_directory": None if logs is None else str(Path(logs).resolve()),
        "job_name": "tbq",
        "death_timeout": 60,
        "scheduler_options": {"dashboard_address": ":0"},
    }


def _check(name: str, program: str, jobs: Any, cores: Any, minimum: Any, prelude: Any) -> None:
    whole(f"{name}: jobs", jobs)
    whole(f"{name}: cores", cores)
    if minimum is not None and whole(f"{name}: minimum", minimum, 0, ", or None") > jobs:
        raise ArgumentError(f"{name}: minimum must be at most jobs = {jobs}; got {minimum}")
    if isinstance(prelude, str):
        raise ArgumentError(f"{name}: prelude must be a list of commands; got {prelude!r}")
    if shutil.which(program) is None:
        raise ArgumentError(f"{name}: there is no {program} here; run this where jobs can be submitted")


class _Factory:
    """Makes the cluster when a run begins, and anew when it broke."""

    def __init__(self, kind: str, jobs: int, minimum: int | None, options: Mapping[str, Any]) -> None:
        self.kind, self.jobs, self.minimum, self.options = kind, jobs, jobs if minimum is None else minimum, options

    def cluster(self) -> Any:
        """The cluster of dask-jobqueue, without jobs."""
        try:
            import dask

            with _interrupts_kept():
                import dask_jobqueue
        except ImportError as error:
            raise MissingDependencyError(f"clusters need dask-jobqueue: {_INSTALL}") from error
        # a run whose job died is ours to make again, once, in a process of its own: Dask would try it with four jobs
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
            return getattr(dask_jobqueue, self.kind)(**self.options)

    def __call__(self) -> Executor:
        try:
            cluster = self.cluster()
        except MissingDependencyError:
            raise
        except Exception as error:
            raise Transient(f"the cluster cannot be started: {described(error)}") from error
        cluster.adapt(minimum_jobs=self.minimum, maximum_jobs=self.jobs)
        return _ClusterExecutor(cluster, self.jobs)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """dask_jobqueue makes Ctrl-C end the process as it is imported: a run must see it, to stop in order."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


class _ClusterExecutor(Executor):
    """Runs on the jobs of a cluster, which end with it."""

    def __init__(self, cluster: Any, jobs: int) -> None:
        distributed: Any = importlib.import_module("distributed")
        self.cluster, self.client = cluster, distributed.Client(cluster, set_as_default=False)
        self._within = self.client.get_executor()
        self._max_workers = jobs  # as other pools say how many they have

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._within.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with suppress(Exception):  # it may be gone already
            self._within.shutdown(wait=wait)
        with suppress(Exception):
            self.client.close()
        with suppress(Exception):
            self.cluster.close()


# --- submitit -----------------------------------------------------------------------------------------------


def submitit(executor: Any, *, places: int = 1) -> Executor:
    """A ``submitit`` executor as ``tbq.infer(..., executor=)`` takes it: every run is a job of its own.

    Parameters
    ----------
    executor
        ``submitit.AutoExecutor(folder=...)`` with its parameters set.
    places
        How many jobs are expected to run at a time, for forecasts; ``batch_size`` says how many there are.

    Examples
    --------
    >>> jobs = submitit.AutoExecutor(folder="logs")  # doctest: +SKIP
    >>> jobs.update_parameters(timeout_min=120, cpus_per_task=4)  # doctest: +SKIP
    >>> tbq.infer(f, prior, executor=tbq.clusters.submitit(jobs, places=8), batch_size=8)  # doctest: +SKIP
    """
    if not callable(getattr(executor, "submit", None)):
        raise ArgumentError(f"submitit: executor must be a submitit executor; got {type(executor).__name__}")
    return _JobExecutor(executor, whole("submitit: places", places))


class _JobExecutor(Executor):
    """Jobs that have to be asked whether they are done, as futures."""

    def __init__(self, executor: Any, places: int) -> None:
        self._executor, self._max_workers = executor, places
        self._lock = threading.Lock()
        self._out: dict[Future[Any], Any] = {}
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._out[future] = self._executor.submit(fn, *args, **kwargs)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in list(self._out) if cancel_futures else ():
            future.cancel()
        thread = self._thread
        if wait and thread is not None:
            thread.join()

    def _watch(self) -> None:
        """Until nothing is out."""
        while True:
            for future, job in list(self._out.items()):
                if future.cancelled():
                    with suppress(Exception):
                        job.cancel()
                elif not _is_done(job):
                    continue
                else:
                    _finish(future, job)
                with self._lock:
                    del self._out[future]
            with self._lock:
                if not self._out:
                    self._thread = None
                    return
            time.sleep(_POLL)


def _is_done(job: Any) -> bool:
    """Whoever cannot tell for a moment, as a busy scheduler, is asked again."""
    with suppress(Exception):
        return bool(job.done())
    return False


def _finish(future: Future[Any], job: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job.result())
    except Exception as error:
        future.set_exception(error)
