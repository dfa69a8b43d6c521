"""What ``result.verify`` is worth: rough and converged results, checked by 20 and 100 true runs, eight times each.

Run: python benchmarks/verification.py (two minutes). The table is in docs/design.md.
"""

import numpy as np

import tbq

PROBLEMS = ("u1", "u3", "u4")
BUDGETS = (28, None)
CHECKS = (20, 100)
REPEATS = 8


def main() -> None:
    print("| problem | runs | error before | its sd | true runs | error after (rms) | its sd | worth | agree |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in PROBLEMS:
        problem = tbq.problems.get(name)
        for budget in BUDGETS:
            result = tbq.infer(problem.log_likelihood, problem.prior, seed=1, max_evaluations=budget)
            exact = problem.reference.log_evidence
            for n in CHECKS:
                found = [result.verify(n, problem.log_likelihood, seed=seed) for seed in range(REPEATS)]
                after = np.sqrt(np.mean([(v.log_evidence - exact) ** 2 for v in found]))
                print(
                    f"| `{name}` | {result.n_evaluations} | {result.log_evidence - exact:+.3f} "
                    f"| {result.log_evidence_sd:.3f} | {n} | {after:.3f} "
                    f"| {np.mean([v.log_evidence_sd for v in found]):.3f} "
                    f"| {np.mean([v.effective_sample_size for v in found]):.0f} of {n} "
                    f"| {sum(v.agrees for v in found)} of {REPEATS} |"
                )


if __name__ == "__main__":
    main()
