"""Failures that are alike, whatever their theta."""

import numpy as np

from tbq.problem.evaluation import Evaluation, Status
from tbq.problem.failures import likeness, longest_streak, streak_of, words


def failed(message, status=Status.FAILED, i=0):
    return Evaluation(i, np.zeros(2), 0, "initial", np.nan, status, np.nan, message)


def test_failures_are_alike_where_only_numbers_and_directories_differ():
    one = "the program ended with exit code 1 (/sim 0.25 -1e-3)\n  12:30:01 no licence\nkept: /w/tbq-run-a1_x"
    two = "the program ended with exit code 1 (/sim 1.75 2.5)\n  12:31:59 no licence\nkept: /w/tbq-run-bb7z"
    assert likeness(failed(one)) == likeness(failed(two))
    assert likeness(failed(one)) != likeness(failed(one.replace("code 1", "code 2")))
    assert likeness(failed(one)) != likeness(failed(one.replace("no licence", "no mesh")))
    assert likeness(failed(one)) != likeness(failed(one, Status.TIMEOUT))
    assert likeness(failed("at <f 0x7f3a>")) == likeness(failed("at <f 0x7e00>"))
    assert likeness(Evaluation(0, np.zeros(2), 0, "initial", np.nan, Status.OK, -1.0)) == ""


def test_a_streak_counts_calls_and_ends_with_a_success_or_another_failure():
    runs = [failed("a", i=i) for i in range(4)]
    assert [r.id for r in streak_of(runs).runs] == [0, 1, 2, 3]
    assert streak_of(runs).is_longer((4, 9))
    assert not streak_of(runs).is_longer((5, 9))
    assert streak_of([*runs, failed("b")]).calls == 1
    good = Evaluation(9, np.zeros(2), 0, "initial", np.nan, Status.INFEASIBLE, -np.inf)
    assert not streak_of([*runs, good]).runs
    assert streak_of([good, *runs]).is_longer((9, 4))
    assert not streak_of([good, *runs]).is_longer((2, 5))
    assert streak_of([]).after(runs).calls == 1  # one vectorised call
    assert streak_of(runs[:1]).after(runs[1:]).calls == 2


def test_the_longest_streak_in_words():
    runs = [failed("a", i=i) for i in range(3)] + [failed("b\nmore", i=i) for i in range(3, 8)] + [failed("c", i=8)]
    assert [e.id for e in longest_streak(runs)] == [3, 4, 5, 6, 7]
    assert words(longest_streak(runs)) == "5 runs in a row, 3 to 7, failed alike (b)."
    assert words([failed("", Status.TIMEOUT)]) == "1 runs in a row, 0 to 0, failed alike (timeout)."
    assert longest_streak([]) == ()
