"""What has nothing to do with theta is recognised where it is raised."""

import errno
import socket
import urllib.request

import numpy as np
import pytest

import tbq
from tbq import adapters
from tbq.common import errors
from tbq.simulate import child


def refused():
    """The address of a server that is not there."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def raised(f, *args):
    try:
        f(*args)
    except Exception as error:
        return error
    raise AssertionError


class Licence(tbq.Transient):
    """A user's own kind."""


def test_what_has_nothing_to_do_with_theta_is_recognised(tmp_path):
    gone = raised(urllib.request.urlopen, refused())  # wrapped, as libraries do
    assert child.outage_of(gone) == "seen"
    assert child.outage_of(raised(adapters.UmBridgeModel(refused(), "m", retries=0), np.zeros(1))) == "seen"
    assert child.outage_of(tbq.Transient("no licence")) == "named"
    assert child.outage_of(Licence("no licence")) == "named"
    assert child.outage_of(OSError(errno.ENOSPC, "full")) == "seen"
    for of_theta in (ValueError("x"), FileNotFoundError(2, "out.txt"), TimeoutError(), BrokenPipeError(32, "x")):
        assert child.outage_of(of_theta) == ""
    circle = ValueError("x")
    circle.__context__ = circle
    assert child.outage_of(circle) == ""


def command(tmp_path, script, **changes):
    path = tmp_path / "sim.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    arguments = {"command": (str(path), "{a}", "{b}"), "output": "stdout.txt", "folder": tmp_path / "work"}
    return adapters.CommandModel(("a", "b"), **arguments | changes)


def test_a_program_that_cannot_be_started_or_says_so_itself(tmp_path):
    model = command(tmp_path, "exit 75", transient=[75, 69])
    with pytest.raises(errors.ProgramUnavailableError, match="exit code 75, which is transient") as caught:
        model(np.zeros(2))
    assert isinstance(caught.value, tbq.Transient)
    with pytest.raises(errors.ProgramError, match="exit code 3 ") as caught:
        command(tmp_path, "exit 3", transient=[75])(np.zeros(2))
    assert not isinstance(caught.value, tbq.Transient)
    for spoil in (lambda path: path.chmod(0o644), lambda path: path.unlink()):
        spoil(tmp_path / "sim.sh")
        with pytest.raises(errors.ProgramUnavailableError, match="could not be started"):
            model(np.zeros(2))


@pytest.mark.parametrize("codes", [75, [0], [256], ["75"], [True], "75"])
def test_wrong_exit_codes_are_named(tmp_path, codes):
    with pytest.raises(tbq.TbqError, match="transient must be a list of exit codes from 1 to 255"):
        command(tmp_path, "exit 75", transient=codes)
