"""The journal: exact values, one writer, and what happens to it when a machine dies or a disk lies."""

import copy
import json
import math
import multiprocessing
import os
import random
import shutil
import stat
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fuzz_files import NASTY, places
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tbq
from tbq.cli import status
from tbq.problem.evaluation import Evaluation, Proposal, Status
from tbq.problem.settings import resolve
from tbq.run import journal
from tbq.run.contents import Contents, proposals_of, run_of
from tbq.run.header import FORMAT, header_of
from tbq.run.journal import FILE, Journal, read
from tbq.run.same_run import check_same

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
SETTINGS = resolve(2)


def proposal(i):
    return Proposal(i, np.array([0.1 * i, 1 / 3]), 0, "initial", np.nan)


def evaluation(i, value=-0.1, status=Status.OK, outputs=None):
    p = proposal(i)
    return Evaluation(i, p.theta, p.stage, p.origin, p.acquisition, status, value, "é\n", 0.5, outputs)


def write(folder, runs=4):
    """A journal of a header, one ask and a few runs; returns its bytes."""
    with_header = header_of(PRIOR, SETTINGS, 3, "1.0", [])
    writer = Journal(folder)
    writer.append(with_header, journal.ask_record([proposal(i) for i in range(runs)]))
    for i in range(runs):
        writer.append(journal.run_record(evaluation(i, -1.0 / (i + 3))))
    writer.close()
    return (folder / FILE).read_bytes()


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


@given(
    value=st.floats(),
    seconds=st.floats(0, 1e9),
    theta=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4),
    outputs=st.none() | st.lists(st.floats(), max_size=4),
    message=st.text(),
    status=st.sampled_from(Status),
)
def test_values_come_back_exactly(value, seconds, theta, outputs, message, status):
    array = None if outputs is None else np.array(outputs, dtype=float)
    before = Evaluation(7, np.array(theta), 2, "peur", value, status, value, message, seconds, array)
    asked = journal.ask_record([Proposal(7, before.theta, 2, "peur", value)])
    lines = [json.loads(journal._line(r, 0)[0]) for r in (asked, journal.run_record(before))]
    after = run_of(lines[1], proposals_of(lines[0])[0])
    assert (after.id, after.stage, after.origin, after.status, after.message) == (7, 2, "peur", status, message)
    assert same(after.log_likelihood, value)
    assert same(after.acquisition, value)
    assert after.seconds == seconds
    assert after.theta.tobytes() == before.theta.tobytes()
    assert (after.outputs is None) == (array is None)
    if array is not None:
        np.testing.assert_array_equal(after.outputs, array)


def test_every_line_is_plain_json_and_ends_in_its_checksum(tmp_path):
    lines = write(tmp_path).decode().splitlines()
    records = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [r["kind"] for r in records] == ["header", "ask", "run", "run", "run", "run"]
    assert all(len(r["crc"]) == 8 for r in records)
    assert records[0]["format"] == FORMAT
    assert records[0]["seed"] == 3


def test_a_reader_needs_no_lock_and_sees_all_complete_records(tmp_path):
    with pytest.raises(tbq.TbqError, match="there is none in"):
        read(tmp_path)
    writer = Journal(tmp_path)
    with pytest.raises(tbq.TbqError, match="no complete record yet"):
        read(tmp_path)
    writer.append(header_of(PRIOR, SETTINGS, 3, "1.0", [evaluation(0, -np.inf, Status.INFEASIBLE)]))
    writer.append(journal.ask_record([proposal(1), proposal(2)]))
    assert [p.id for p in read(tmp_path).pending] == [1, 2]
    writer.append(journal.run_record(evaluation(2)))
    contents = read(tmp_path)
    assert [p.id for p in contents.pending] == [1]
    assert [(e.id, e.log_likelihood) for e in contents.evaluations] == [(0, -np.inf), (2, -0.1)]
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"kind":"run","id":1,')  # being written
    assert len(read(tmp_path).records) == 2


# --- damage -------------------------------------------------------------------------------------------------


def test_a_record_is_on_the_disk_when_append_returns(tmp_path, monkeypatch):
    synced = []

    def fsync(file):
        if not stat.S_ISDIR(os.fstat(file).st_mode):
            synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    data = write(tmp_path)
    ends = np.cumsum([len(line) + 1 for line in data.splitlines()])
    assert synced == [*ends[1:]]  # the header and the first ask were written together


def test_a_file_cut_at_any_byte_is_repaired_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # thousands of them
    data = write(tmp_path / "whole")
    ends = np.cumsum([len(line) + 1 for line in data.splitlines()])
    path = tmp_path / "cut" / FILE
    path.parent.mkdir()
    for cut in [*range(0, ends[-3], 50), *range(ends[-3], len(data) + 1)]:
        path.write_bytes(data[:cut])
        # complete with its checksum, a record counts even where only the end of its line is missing
        complete = int(np.sum(ends - 1 <= cut))
        writer = Journal(path.parent)
        kept = 0 if writer.contents is None else 1 + len(writer.contents.records)
        assert kept == complete
        writer.append(journal.LEARN)
        writer.close()
        assert path.read_bytes().startswith(data[: ends[complete - 1] if complete else 0])
        assert len(path.read_bytes().splitlines()) == complete + 1
        if complete:
            assert read(path.parent).records[-1]["kind"] == "learn"


def test_damage_before_the_end_is_refused_and_the_file_left_alone(tmp_path):
    data = write(tmp_path)
    path = tmp_path / FILE
    for position in range(len(data)):
        for bit in (0x01, 0x20):
            damaged = bytearray(data)
            damaged[position] ^= bit
            if position == len(data) - 1:  # the very last end of line: that is a torn write
                continue
            with pytest.raises(tbq.TbqError, match=r"is damaged in line \d.*checksum"):
                journal._scan(bytes(damaged), path)
            if position % 300 == 0:
                path.write_bytes(damaged)
                for use in (read, Journal):
                    with pytest.raises(tbq.TbqError, match="is damaged in line"):
                        use(tmp_path)
                assert path.read_bytes() == damaged


@pytest.mark.parametrize("change", ["removed", "doubled", "swapped"])
def test_lines_out_of_place_are_noticed(tmp_path, change):
    lines = write(tmp_path).splitlines(keepends=True)
    changed = {
        "removed": [*lines[:2], *lines[3:]],
        "doubled": [*lines[:3], lines[2], *lines[3:]],
        "swapped": [*lines[:2], lines[3], lines[2], *lines[4:]],
    }[change]
    (tmp_path / FILE).write_bytes(b"".join(changed))
    with pytest.raises(tbq.TbqError, match=r"is damaged in line [34]"):
        read(tmp_path)


def test_zeros_at_the_end_are_a_torn_write(tmp_path):
    data = write(tmp_path)
    (tmp_path / FILE).write_bytes(data + bytes(500))  # what some file systems leave after a power cut
    Journal(tmp_path).close()
    assert (tmp_path / FILE).read_bytes() == data


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (OSError(5, "Input/output error"), tbq.TbqError, "cannot be written: Input/output error"),
        (KeyboardInterrupt("enough"), KeyboardInterrupt, "enough"),
    ],
)
def test_a_bad_disk_or_an_interrupt_leaves_whole_records(tmp_path, monkeypatch, error, raised, message):
    data = write(tmp_path)
    writer = Journal(tmp_path)
    pwrite = os.pwrite

    def half(file, block, offset):
        if offset > len(data):
            raise error
        return pwrite(file, block[: len(block) // 2], offset)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(raised, match=message):
        writer.append(journal.LEARN)
    monkeypatch.undo()
    assert (tmp_path / FILE).read_bytes() == data
    with pytest.raises(tbq.TbqError, match="is closed"):
        writer.append(journal.LEARN)
    Journal(tmp_path).close()


def test_records_that_no_run_writes_are_refused_though_their_checksums_are_right(tmp_path):
    rng = random.Random(0)
    lines = [json.loads(line) for line in write(tmp_path).splitlines()]
    lines += [journal.drop_record([1]), journal.outage_record("no licence", [1, 2], 30.0)]
    refused = 0
    for _ in range(500):
        records = [{k: v for k, v in line.items() if k != "crc"} for line in copy.deepcopy(lines)]
        owner, key = rng.choice(list(places(records)))
        owner[key] = rng.choice(NASTY)
        check, data = 0, b""
        for record in records:
            line, check = journal._line({} if record is None else record, check)
            data += line
        (tmp_path / FILE).write_bytes(data)
        try:
            account = status.lines(tmp_path)
        except tbq.TbqError:
            refused += 1
            with pytest.raises(tbq.TbqError, match=r"^journal: .* (holds what no run has written|is damaged in)"):
                Journal(tmp_path)
        else:
            assert "\x1b" not in "".join(account)
    assert 50 < refused < 500


def test_a_record_that_nests_without_end_is_refused(tmp_path):
    body = b'{"a":' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    (tmp_path / FILE).write_bytes(body[:-1] + (journal._CHECK % zlib.crc32(body)).encode() + b"\n")
    with pytest.raises(tbq.TbqError, match="holds what no run has written: RecursionError"):
        read(tmp_path)


# --- one writer ---------------------------------------------------------------------------------------------


def test_there_is_one_writer(tmp_path):
    first = Journal(tmp_path)
    with pytest.raises(tbq.TbqError, match="in use by another run"):
        Journal(tmp_path)
    code = f"from tbq.run.journal import Journal; Journal({str(tmp_path)!r})"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "in use by another run" in other.stderr
    first.close()
    Journal(tmp_path).close()


def test_a_forked_worker_does_not_keep_the_lock(tmp_path):
    first = Journal(tmp_path)
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    process.start()
    first.close()  # as if the parent had been killed
    Journal(tmp_path).close()
    process.kill()
    process.join()


def test_the_lock_ends_with_a_killed_process_and_its_forked_workers_do_not_keep_it(tmp_path):
    code = f"""if True:
        import os, time
        from tbq.run.journal import Journal
        writer = Journal({str(tmp_path)!r})
        worker = os.fork()
        if worker == 0:
            time.sleep(60)
        print(worker, flush=True)
        time.sleep(60)"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        worker = int(process.stdout.readline())
        assert journal.in_use(tmp_path)
        process.kill()
        process.wait()
        os.kill(worker, 0)  # it lives
        assert not journal.in_use(tmp_path)
        Journal(tmp_path).close()
        os.kill(worker, 9)


def test_readers_see_the_writer_and_leave_nothing_behind(tmp_path):
    assert not journal.in_use(tmp_path)
    assert list(tmp_path.iterdir()) == []
    writer = Journal(tmp_path)
    (tmp_path / "journal.lock").chmod(0o444)
    with ThreadPoolExecutor(8) as readers:  # who hold the lock for a moment each
        assert all(readers.map(lambda _: journal.in_use(tmp_path), range(8)))
        writer.close()
        assert not any(readers.map(lambda _: journal.in_use(tmp_path), range(200)))
    (tmp_path / "journal.lock").chmod(0o644)
    Journal(tmp_path).close()


@pytest.mark.parametrize("what", ["removed", "moved", "replaced", "journal removed", "lock removed"])
def test_a_folder_that_vanishes_is_noticed_at_the_next_write(tmp_path, what):
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    data = write(folder)
    writer = Journal(folder)
    match what:
        case "removed":
            shutil.rmtree(folder)
        case "moved":
            folder.rename(elsewhere)
        case "replaced":
            shutil.copytree(folder, elsewhere)
            shutil.rmtree(folder)
            elsewhere.rename(folder)
        case "journal removed":
            (folder / FILE).unlink()
        case "lock removed":
            (folder / "journal.lock").unlink()
    with pytest.raises(tbq.TbqError, match="was moved, removed or replaced while the run went on"):
        writer.append(journal.LEARN)
    with pytest.raises(tbq.TbqError, match="is closed"):
        writer.append(journal.LEARN)
    if what == "moved":
        elsewhere.rename(folder)
    if what in ("moved", "replaced", "lock removed"):
        assert (folder / FILE).read_bytes() == data
        Journal(folder).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tbq.TbqError, match=r"file/runs/journal\.jsonl cannot be opened: Not a directory"):
        Journal(tmp_path / "file" / "runs")


# --- the header ---------------------------------------------------------------------------------------------


def header(prior=PRIOR):
    return Contents(json.loads(json.dumps(header_of(prior, SETTINGS, 3, "1.0", []))), ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "1.1"}, "tbq was 1.0, is 1.1"),
        ({"seed": 4}, "seed was 3, is 4"),
        ({"settings": resolve(2, population=300)}, "population was 2048, is 300"),
        ({"settings": resolve(2, algorithm="bq")}, "algorithm was 'tbq', is 'bq'"),
        (
            {"settings": resolve(2, population=300, kernel="se")},
            r"kernel was 'auto', is 'se' \(and 1 more thing differs",
        ),
        ({"settings": resolve(2, acquisition=lambda t, z: z)}, "acquisition was 'peur', is '<lambda>'"),
        (
            {"prior": tbq.Prior({"a": stats.uniform(-2, 4), "c": stats.norm(0, 1)})},
            "the parameters were a, b, are a, c",
        ),
        ({"prior": tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1.001)})}, "prior of b was norm"),
        ({"prior": tbq.Prior(PRIOR.marginals, constraint=lambda t: t[0] > -1.99)}, "the prior had no constraint"),
        (
            {"prior": tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1.0000000000000002)})},
            r"the prior of b was norm\(.*scale = 1.0\), is norm\(.*scale = 1.0000000000000002\)",
        ),
        ({"prior": tbq.Prior(PRIOR.marginals, correlation=[[1, 1e-13], [1e-13, 1]])}, "the prior had no correlation"),
    ],
)
def test_a_journal_of_another_run_is_refused(tmp_path, change, message):
    now = {"prior": PRIOR, "settings": SETTINGS, "seed": 3, "version": "1.0"}
    path = tmp_path / FILE
    check_same(header(), **now, path=path)
    check_same(header(), **{**now, "seed": None}, path=path)
    with pytest.raises(tbq.TbqError, match=message) as caught:
        check_same(header(), **{**now, **change}, path=path)
    assert f"warm_start={str(tmp_path)!r}" in str(caught.value)


def test_another_format_is_refused(tmp_path):
    with pytest.raises(tbq.TbqError, match="it has format 99, and this tbq reads format 1"):
        check_same(Contents({**header().header, "format": 99}, ()), PRIOR, SETTINGS, 3, "1.0", tmp_path / FILE)


def test_thirty_thousand_evaluations_load_in_a_second(tmp_path):
    n = 30_000
    writer = Journal(tmp_path)
    writer.append(header_of(PRIOR, SETTINGS, 3, "1.0", []))
    writer.append(*(journal.ask_record([proposal(i)]) for i in range(n)))
    writer.append(*(journal.run_record(evaluation(i, -1.0 / (i + 1))) for i in range(n)))
    writer.close()
    start = time.process_time()
    contents = read(tmp_path)
    assert len(contents.evaluations) == n
    assert contents.evaluations[-1].log_likelihood == -1.0 / n
    assert contents.pending == ()
    assert time.process_time() - start < 3.0  # less than one
