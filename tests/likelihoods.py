"""Log-likelihoods for the tests of the runner, in a module that imports little: processes load it again and again."""

import os
import signal
import subprocess
import time


def log_likelihood(theta):
    return float(-2.0 * (theta[0] - 0.4) ** 2 - 8.0 * (theta[1] - theta[0] ** 2) ** 2)


class WithOutputs:
    def __call__(self, theta):
        raise AssertionError("evaluate says more")

    def evaluate(self, theta):
        return log_likelihood(theta), [theta[0], theta[1] ** 2]


class Slow:
    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, theta):
        time.sleep(self.seconds)
        return log_likelihood(theta)


class Hanging:
    """Starts a program and waits for it, where a is large; leaves the numbers of both processes."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, theta):
        if theta[0] > 1.0:
            program = subprocess.Popen(["sleep", "600"])
            (self.folder / f"{os.getpid()}").write_text(f"{os.getpid()} {program.pid}")
            program.wait()
        return log_likelihood(theta)


class Moody:
    """Fails the first ``bad`` times at each point."""

    def __init__(self, folder, bad, mood):
        self.folder, self.bad, self.mood = folder, bad, mood

    def __call__(self, theta):
        path = self.folder / f"{theta[0]!r}"
        with path.open("a") as file:
            file.write("x")
        if theta[0] > 1.0 and len(path.read_text()) <= self.bad:
            if self.mood == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError(self.mood)
        return log_likelihood(theta)

    def calls(self, theta):
        return len((self.folder / f"{theta[0]!r}").read_text())


class Dying:
    """Takes its process along, the first time."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, theta):
        if not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os._exit(3)
        return log_likelihood(theta)
