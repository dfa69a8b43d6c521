"""What has nothing to do with theta is recognised where it is raised."""

import errno
import shutil
import socket
import urllib.request

import numpy as np
import pytest

import tbq
from tbq import adapters, readers
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


def test_files_that_somebody_takes_away_are_not_a_property_of_theta(tmp_path):
    template, constants = tmp_path / "in.txt", tmp_path / "constants.txt"
    for path in (template, constants):
        path.write_text("{a} {b}")
    model = command(tmp_path, "echo 1", template=template, files=[constants])
    assert model(np.zeros(2)) == [1.0]
    for path in (template, constants):
        text = path.read_text()
        path.unlink()
        with pytest.raises(errors.ProgramUnavailableError, match=f"cannot be read or written: .*{path.name}"):
            model(np.zeros(2))
        path.write_text(text)
    shutil.rmtree(tmp_path / "work")
    (tmp_path / "work").touch()
    with pytest.raises(errors.ProgramUnavailableError, match="no directory can be made for the run"):
        model(np.zeros(2))


def test_a_function_that_reads_outputs_may_say_that_it_is_an_outage(tmp_path):
    def read(directory):
        raise tbq.Transient("the archive is being moved")

    with pytest.raises(tbq.Transient, match="the archive is being moved") as caught:
        command(tmp_path, "true", output=readers.Output("u", readers.Function(read)))(np.zeros(2))
    assert child.outage_of(caught.value) == "named"


@pytest.mark.parametrize("codes", [75, [0], [256], ["75"], [True], "75"])
def test_wrong_exit_codes_are_named(tmp_path, codes):
    with pytest.raises(tbq.TbqError, match="transient must be a list of exit codes from 1 to 255"):
        command(tmp_path, "exit 75", transient=codes)
