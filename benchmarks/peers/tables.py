"""What the comparison says: the page made from its rows."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import numpy as np

import tbq

OURS = ("tbq", "tbq-outputs")
SURROGATES = ("pyvbmc", "gpry", "emukit")
SAMPLERS = ("dynesty", "nautilus", "ultranest")
PEERS = (*OURS, *SURROGATES, *SAMPLERS)
PROBLEMS = ("u1", "u2", "u3", "u4", "dof2", "dof3", "mixture4", "banana6", "correlated8", "ten")
CPU_LIMIT = 600.0  # seconds per run, the likelihood's included
SOLVED = 0.5  # error of the log-evidence: less than a mode of half the mass
GAUSSIAN = ("dof2", "dof3")  # those whose likelihood is a tbq.GaussianLikelihood


@dataclass(frozen=True)
class Run:
    """What one run gave; its log-evidence is nan where it did not end by itself."""

    peer: str
    problem: str
    seed: int
    calls: int
    log_evidence: float
    stated_sd: float  # nan where none is stated
    converged: bool
    cpu_seconds: float  # outside the likelihood
    ended: str  # "itself", "out of time" or an error message
    version: str


Key = tuple[str, str, int]


def key(run: Run) -> Key:
    return (run.peer, run.problem, run.seed)


def failed(peer: str, problem: str, seed: int, message: str) -> Run:
    """The row of a run that ended with an error."""
    return Run(peer, problem, seed, 0, np.nan, np.nan, False, np.nan, message, "")


def tasks(peers: list[str], problems: list[str], seeds: int) -> list[Key]:
    """All runs, seed by seed; only problems with a Gaussian likelihood have outputs to learn."""
    every = [(peer, problem, seed) for seed in range(seeds) for problem in problems for peer in peers]
    return [t for t in every if t[0] != "tbq-outputs" or t[1] in GAUSSIAN]


@dataclass(frozen=True)
class Score:
    """Means over the runs of one method on one problem that ended by themselves."""

    calls: float
    error: float  # |log-evidence − exact|
    median_error: float
    rms_z: float  # of the error over the stated standard deviation
    cpu_seconds: float
    converged: int


def score(runs: list[Run]) -> Score:
    exact = tbq.problems.get(runs[0].problem).reference.log_evidence
    errors = np.abs([r.log_evidence - exact for r in runs])
    return Score(
        calls=float(np.mean([r.calls for r in runs])),
        error=float(np.mean(errors)),
        median_error=float(np.median(errors)),
        rms_z=float(np.sqrt(np.mean((errors / [r.stated_sd for r in runs]) ** 2))),
        cpu_seconds=float(np.mean([r.cpu_seconds for r in runs])),
        converged=sum(r.converged for r in runs),
    )


def finished(runs: list[Run], peer: str, problem: str) -> list[Run]:
    return [r for r in runs if (r.peer, r.problem, r.ended) == (peer, problem, "itself")]


def same_seeds(runs: list[Run], peer: str, problem: str) -> tuple[list[Run], list[Run]]:
    """tbq's runs and the peer's over the seeds that both have."""
    ours, theirs = ([r for r in runs if (r.peer, r.problem) == (name, problem)] for name in ("tbq", peer))
    seeds = {r.seed for r in ours} & {r.seed for r in theirs}
    return [r for r in ours if r.seed in seeds], [r for r in theirs if r.seed in seeds]


def solved(runs: list[Run]) -> bool:
    """Whether all runs ended by themselves, with a small error on average."""
    return all(r.ended == "itself" for r in runs) and score(runs).error < SOLVED


def _errors(s: Score) -> tuple[float, float]:
    return s.error, s.median_error


def shortfalls(ours: Score, theirs: Score) -> list[str]:
    """In which respects tbq is not better, in words."""
    found = []
    if ours.calls >= theirs.calls:
        found.append(f"calls ({ours.calls:,.0f} against {theirs.calls:,.0f})")
    if not (ours.error < theirs.error and ours.median_error < theirs.median_error):
        mean, median = (f"{a:.3f} against {b:.3f}" for a, b in zip(_errors(ours), _errors(theirs), strict=True))
        found.append(f"error (mean {mean}, median {median})")
    if ours.cpu_seconds >= theirs.cpu_seconds:
        found.append(f"CPU time ({ours.cpu_seconds:.1f} s against {theirs.cpu_seconds:.1f} s)")
    return found


def verdict(runs: list[Run], peer: str) -> list[str]:
    """One sentence on a peer, and a line for each problem that both solve and tbq is not better in everything."""
    pairs = {problem: same_seeds(runs, peer, problem) for problem in PROBLEMS}
    tried = {problem: pair for problem, pair in pairs.items() if pair[0]}
    both = {p: (score(ours), score(theirs)) for p, (ours, theirs) in tried.items() if solved(ours) and solved(theirs)}
    worse = {problem: shortfalls(*pair) for problem, pair in both.items()}

    def count(word: str) -> int:
        return sum(all(word not in part for part in parts) for parts in worse.values())

    lines = [
        f"**{NAMES[peer]}**, on {len(tried)} problems, of which both solve {len(both)}: of these tbq needs fewer calls "
        f"on {count('calls')}, has the smaller error on {count('error')} and needs less CPU time on {count('CPU')}; "
        f"all three on {sum(not parts for parts in worse.values())}.",
        "",
    ]
    for problem, parts in worse.items():
        errors = "; errors {:.3f} and {:.3f}".format(*(s.error for s in both[problem]))
        if parts:
            lines.append(
                f"- `{problem}`: tbq is not better in {', '.join(parts)}{errors * ('error' not in str(parts))}."
            )
    for i, name in enumerate(("tbq", NAMES[peer])):
        unsolved = [f"`{problem}`" for problem, pair in tried.items() if not solved(pair[i])]
        if unsolved:
            lines.append(f"- Not solved by {name}: {', '.join(unsolved)}.")
    if len(tried) < len(PROBLEMS):
        lines.append(f"- Not run: {', '.join(f'`{problem}`' for problem in PROBLEMS if problem not in tried)}.")
    return [*lines, *[""] * (lines[-1] != "")]


NAMES = {
    **{"tbq": "tbq", "tbq-outputs": "tbq, outputs", "pyvbmc": "PyVBMC", "gpry": "GPry", "emukit": "emukit WSABI-L"},
    **{"dynesty": "dynesty", "nautilus": "nautilus", "ultranest": "UltraNest"},
}
HEADER = "| method | finished | calls | error, median | error, mean | rms error / stated | CPU s | converged |"


def row(runs: list[Run], peer: str, problem: str) -> str:
    """A line of a problem's table."""
    every = [r for r in runs if (r.peer, r.problem) == (peer, problem)]
    ended, name = finished(runs, peer, problem), NAMES[peer]
    if not ended:
        last = every[-1]
        why = last.ended.split(". ")[0].replace("|", "/")
        why += f" after {last.calls:,} calls" if last.ended == "out of time" else ""
        return f"| {name} | 0 of {len(every)}: {why} | | | | | | |"
    s = score(ended)
    stated = f"{s.rms_z:.1f}" if np.isfinite(s.rms_z) else ""
    cells = [
        name,
        f"{len(ended)} of {len(every)}",
        f"{s.calls:,.0f}",
        f"{s.median_error:.3f}",
        f"{s.error:.3f}",
        stated,
    ]
    return f"| {' | '.join(cells)} | {s.cpu_seconds:.1f} | {'' if peer == 'emukit' else s.converged} |"


def problem_table(runs: list[Run], problem: str) -> list[str]:
    present = [peer for peer in PEERS if any((r.peer, r.problem) == (peer, problem) for r in runs)]
    if not present:
        return []
    case = tbq.problems.get(problem)
    title = f"### `{problem}`: {case.title}, {case.prior.dim} parameters"
    lines = [title, "", HEADER, "|" + "---|" * (HEADER.count("|") - 1)]
    return [*lines, *(row(runs, peer, problem) for peer in present), ""]


def versions(runs: list[Run]) -> str:
    """Each method with the version that was run."""
    found = {r.peer: r.version for r in runs if r.version and r.peer != "tbq-outputs"}
    return ", ".join(f"{NAMES[p].split()[0]} {found[p]}" for p in PEERS if p in found)


def page(runs: list[Run]) -> str:
    """Markdown: what tbq is not better at, and the table of each problem."""
    lines = [TEXT.format(versions=versions(runs), python=platform.python_version(), limit=CPU_LIMIT, solved=SOLVED)]
    for title, peers in (("## Against surrogates", SURROGATES), ("## Against samplers", SAMPLERS)):
        lines += [title, ""]
        lines += [line for peer in peers if any(r.peer == peer for r in runs) for line in verdict(runs, peer)]
    lines += ["## Problem by problem", ""]
    lines += [line for problem in PROBLEMS for line in problem_table(runs, problem)]
    return "\n".join(lines)


TEXT = """# Against other methods

Made by `python benchmarks/peers/study.py` with {versions}; Python {python}.
Same problems, machine and seeds, one run at a time on one thread. Every run is in `peers_runs.csv`.

Everyone has the settings that its documentation gives as default; `benchmarks/peers/methods.py` says which. In short:

- tbq: `tbq.infer` with nothing set; *outputs*: the same where it is told that the likelihood is Gaussian.
- PyVBMC: its options as they are; plausible bounds from the prior's central 68 %. Its evidence is a lower bound.
- GPry: `Runner` as it is. Its nested sampler is UltraNest, which comes with it; with PolyChord it may be faster.
- emukit WSABI-L: has no stopping rule and gets 25 (2 + d) calls; it states no error. It needs normal priors, and gets
  all priors as such by their quantiles.
- dynesty: the static `NestedSampler`; nautilus and UltraNest: as they are. nautilus states no error; one over the root
  of its effective sample size stands for it.
- Priors without bounds are handed to PyVBMC as normal and to GPry as uniform ones, by their quantiles.

Errors are those of the log-evidence against the exact one: 0.02 is 2 %. CPU seconds are those outside the likelihood
and the prior's quantiles, without importing the package; a run that had not ended after {limit:.0f} CPU seconds was
stopped. *rms error / stated* is about 1 where stated errors are honest. A comparison uses only the seeds that both
have; there are few, so that small differences mean little. An error is smaller where
mean and median are; a problem is solved where all runs ended in time and their mean error is below {solved}.
"""
