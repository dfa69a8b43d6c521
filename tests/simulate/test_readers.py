"""Outputs of programs: each way to read them, and what is said when they are not as expected."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tbq.common.errors import ArgumentError, OutputError
from tbq.readers import Calculix, Dataset, Function, Json, Numbers, Output, Pattern, Table
from tbq.simulate import textfiles

CALCULIX = Path(__file__).parents[1] / "assets/calculix"

LOG = """ step 1
 tip   -1.5D-03 m   root 2.0
 step 2
 tip   -3.0D-03 m   root 4.0
"""
TABLE = """# written by solver 3.1
   step       time      drift   base shear
      -        [s]        [m]         [kN]
      1       0.10     0.0010         12.0
      2       0.20     0.0030         31.0
      3       0.35    -0.0020         -8.0

 total time 3.2 s
      9       9.90     9.9990          9.9
"""


def read(reader, directory, **how):
    return list(Output("u", reader, **how).read(directory))


@pytest.fixture
def file(tmp_path):
    def write(text, name="out.txt"):
        (tmp_path / name).write_text(text)
        return tmp_path

    return write


# --- text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "how", "expected"),
    [
        (r"tip\s+(\S+)", {}, [-0.0015, -0.003]),
        (r"tip\s+(\S+)", {"take": 2}, [-0.003]),
        (r"tip\s+(\S+)", {"take": [-1, 1]}, [-0.003, -0.0015]),
        (r"^ step (\d)$", {}, [1, 2]),
    ],
)
def test_matches_of_a_pattern(file, pattern, how, expected):
    assert read(Pattern("out.txt", pattern), file(LOG), **how) == expected


def test_a_pattern_may_go_over_lines_when_it_is_asked_to(file):
    assert read(Pattern("out.txt", r"step 2.*root (\S+)", whole=True), file(LOG)) == [4.0]
    with pytest.raises(OutputError, match="has no numbers that match"):
        read(Pattern("out.txt", r"step 2.*root (\S+)"), file(LOG))


@pytest.mark.parametrize(
    ("table", "how", "expected"),
    [
        ({"column": "drift"}, {}, [0.001, 0.003, -0.002]),
        ({"column": "drift", "row": -1}, {}, [-0.002]),
        ({"column": "drift"}, {"take": [1, 3]}, [0.001, -0.002]),
        ({"column": 3, "after": "[kN]"}, {}, [0.001, 0.003, -0.002]),
        ({"column": 3}, {}, [0.001, 0.003, -0.002, 9.999]),  # every line of numbers
        ({"column": -1, "row": 2}, {}, [31.0]),
        ({"row": 1}, {}, [1, 0.1, 0.001, 12.0]),
        ({"column": 2, "after": "total time"}, {}, [9.9]),
    ],
)
def test_a_table_by_its_header_or_by_row_and_column(file, table, how, expected):
    assert read(Table("out.txt", **table), file(TABLE), **how) == expected


def test_a_header_of_cells_with_blanks(file):
    directory = file("Time [s];Base shear [kN]\n0.1;12\n0.2;31\n", "out.csv")
    assert read(Table("out.csv", "Base shear [kN]"), directory) == [12, 31]


@pytest.mark.parametrize(
    ("reader", "how", "message"),
    [
        (Table("out.txt", "drfit"), {}, r"^outputs.u: out.txt has no header with a column 'drfit'"),
        (Table("out.txt", 7), {}, r"out.txt, line 4: it has 4 columns, and column 7 was asked for"),
        (Table("out.txt", 1, 9), {}, r"out.txt has 4 rows of numbers, and row 9 was asked for"),
        (Table("out.txt", 1, after="no such"), {}, r"out.txt has no line with 'no such'"),
        (Table("gone.txt", 1), {}, r"the output file gone.txt is missing; the directory has out.txt"),
        (Table("out.txt", "drift"), {"take": 4}, r"number 4 was asked for; 3 came: 0.001 \(line 4\), 0.003 \(line 5\)"),
        (
            Table("out.txt", "drift"),
            {"count": 2},
            r"^outputs.u: 2 numbers were expected, as many as were observed; 3 came: "
            r"0.001 \(line 4\), 0.003 \(line 5\), -0.002 \(line 6\)$",
        ),
        (Pattern("out.txt", r"written (\w+)"), {}, r"out.txt, line 1: 'by' is not a number"),
    ],
)
def test_a_mismatch_shows_what_was_read_where_and_what_was_expected(file, reader, how, message):
    with pytest.raises(OutputError, match=message):
        read(reader, file(TABLE), **how)


def test_a_history_is_wanted_at_the_times_of_the_data(file):
    directory = file(TABLE)
    found = read(Table("out.txt", "drift"), directory, coordinates=[0.1, 0.15, 0.35], against=Table("out.txt", "time"))
    np.testing.assert_allclose(found, [0.001, 0.002, -0.002])
    with pytest.raises(OutputError, match=r"the history is from 0.1 to 0.35, and wanted from 0.15 to 0.4"):
        read(Table("out.txt", "drift"), directory, coordinates=[0.15, 0.4], against=Table("out.txt", "time"))
    with pytest.raises(OutputError, match=r"coordinates must grow; -0.002 \(line 6\) comes after 0.003 \(line 5\)"):
        read(Table("out.txt", "time"), directory, coordinates=[0.0], against=Table("out.txt", "drift"))
    with pytest.raises(OutputError, match=r"the history has 3 numbers and 2 coordinates: 0.001"):
        read(Table("out.txt", "drift"), directory, coordinates=[1], against=Pattern("out.txt", r"^ +[12] +(\S+)"))
    nothing = Function(lambda _: [])
    with pytest.raises(OutputError, match="the history has 0 numbers and 0 coordinates: nothing"):
        read(nothing, directory, coordinates=[1.0], against=nothing)
    with pytest.raises(ArgumentError, match="u: against needs coordinates"):
        Output("u", Table("out.txt", 1), against=Table("out.txt", 2))


@pytest.mark.parametrize(
    ("text", "reader", "message"),
    [
        ("t u\n0,1 0,2\n0,3 0,4\n", Table("out.txt", "t"), "no line of numbers; line 2 is '0,1 0,2'"),
        ("u\n1,5\n", Table("out.txt", "u"), "no line of numbers; line 2 is '1,5'"),
        ("1,5; 2,5\n", Numbers("out.txt"), "line 1: '1,5' may be one number or two"),
        ("1 2\n0.5 1,5\n", Numbers("out.txt"), "line 2: '1,5' may be one number or two"),
        ("t u\n1 2\n2 *****\n3 4\n", Table("out.txt", "u"), r"line 3: '\*{5}' is not a number: it had no room"),
        ("u\n1.5\n***\n2.5\n", Table("out.txt", "u"), r"line 3: '\*{3}' is not a number"),
        ("1 2\n3 **\n", Table("out.txt", 1), r"line 2: '\*\*' is not a number"),
        ("u u\n1 2\n", Table("out.txt", "u"), "line 1: two columns are called 'u'; give its number"),
        ("1_000\n", Numbers("out.txt"), "'1_000' is not a number"),
        ("\u0663\n", Numbers("out.txt"), "is not a number"),
    ],
)
def test_what_could_be_misread_is_refused(file, text, reader, message):
    with pytest.raises(OutputError, match=message):
        read(reader, file(text), take=-1)


def test_numbers_as_programs_write_them(file):
    assert read(Numbers("out.txt"), file("1.5D+03, 1.5-105 -.25+100\n1,2,3\n")) == [1500, 1.5e-105, -0.25e100, 1, 2, 3]
    assert read(Table("out.txt", "u"), file("# t, u\n0.1 0.2\n")) == [0.2]  # as numpy.savetxt may
    assert read(Table("out.txt", "u"), file("t u\n0.1, 0.2\n")) == [0.2]
    assert read(Table("out.txt", 1), file("***** results *****\n1 2\n*******\n3 4\n")) == [1, 3]


def test_files_that_would_fill_the_memory_are_refused_unread(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install h5py")
    monkeypatch.setattr(textfiles, "_MOST", 1000)
    (tmp_path / "r.txt").write_text("1.0\n" * 251)
    np.savez_compressed(tmp_path / "r.npz", small=np.zeros(10), bomb=np.zeros(126))
    np.save(tmp_path / "r.npy", np.zeros(126))
    with h5py.File(tmp_path / "r.h5", "w") as created:
        created.create_dataset("bomb", shape=(10**13,), dtype="f8", chunks=(1000,))
        created["small"] = np.zeros(10)
    for reader in (Numbers("r.txt"), Dataset("r.npz", "bomb"), Dataset("r.npy"), Dataset("r.h5", "bomb")):
        with pytest.raises(OutputError, match=r"outputs.u: r.\w+ has \d+ MiB, and at most 0 are read; let the program"):
            read(reader, tmp_path)
    assert len(read(Dataset("r.npz", "small"), tmp_path)) == len(read(Dataset("r.h5", "small"), tmp_path)) == 10


# --- JSON, arrays and functions -----------------------------------------------------------------------------


def test_a_key_of_json(file):
    content = {"modes": [{"f": 3.1, "shape": [1, [0.5, -1]]}, {"f": 9.8}], "n": 2}
    directory = file(json.dumps(content), "r.json")
    assert read(Json("r.json", "modes[1].f"), directory) == [9.8]
    assert read(Json("r.json", "modes[0].shape"), directory) == [1, 0.5, -1]
    with pytest.raises(OutputError, match=r"r.json has no 'g' in \['modes'\]\[0\]; there is f, shape"):
        read(Json("r.json", "modes[0].g"), directory)
    with pytest.raises(OutputError, match=r"r.json has no 2 in \['modes'\]; there is a list of 2"):
        read(Json("r.json", "modes[2]"), directory)
    with pytest.raises(ArgumentError, match="key must be names and"):
        Json("r.json", "modes[x]")


def test_datasets_of_numpy_and_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install h5py")
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.savez(tmp_path / "r.npz", u=values, v=values + 4)
    np.save(tmp_path / "r.npy", values)
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["results/u"] = values
        file["results/same"] = file["results/u"]
        file["linked"] = h5py.SoftLink("/results/u")
        file["lost"] = h5py.SoftLink("/nowhere")
        file["name"] = "plate"
    assert read(Dataset("r.npz", "v"), tmp_path) == [5, 6, 7, 8]
    assert read(Dataset("r.npy"), tmp_path) == [1, 2, 3, 4]
    assert read(Dataset("r.h5", "results/u"), tmp_path, take=[-1]) == [4]
    assert read(Dataset("r.h5", "/results/u"), tmp_path, take=1) == [1]
    for name in ("results/u", "results/same", "linked"):
        assert read(Dataset("r.h5", name), tmp_path) == [1, 2, 3, 4]
    with pytest.raises(OutputError, match=r"r.h5 has no dataset 'lost'"):
        read(Dataset("r.h5", "lost"), tmp_path)
    with pytest.raises(OutputError, match=r"r.npz has no dataset 'w'; there is u, v"):
        read(Dataset("r.npz", "w"), tmp_path)
    with pytest.raises(OutputError, match=r"r.h5 has no dataset 'results/w'; there is name, results/same"):
        read(Dataset("r.h5", "results/w"), tmp_path)
    with pytest.raises(OutputError, match=r"r.h5 cannot be read as an array of numbers"):
        read(Dataset("r.h5", "name"), tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(OutputError, match=r"bad.npz cannot be read"):
        read(Dataset("bad.npz", "w"), tmp_path)


def _largest(directory):
    return max(float(line) for line in (directory / "out.txt").read_text().split())


def test_messages_of_large_files_are_short(file):
    directory = file(json.dumps({"a": "x" * 10**6, "\x1b": {"k" * 10**5: 1}}), "r.json")
    for key in ("a.b", "\x1b.b", "b"):
        with pytest.raises(OutputError) as caught:
            read(Json("r.json", key), directory)
        assert len(str(caught.value)) < 400
    with pytest.raises(ArgumentError, match="key must be names and"):
        Json("r.json", f"a[{'9' * 5000}]")


def test_a_function_of_the_directory(file):
    assert read(Function(_largest), file("1 7 3")) == [7]
    assert pickle.loads(pickle.dumps(Output("u", Function(_largest)))).read(file("1 7 3")) == [7]
    with pytest.raises(OutputError, match=r"outputs.u: _largest failed with ValueError: could not convert"):
        read(Function(_largest), file("1 x"))
    with pytest.raises(OutputError, match="returned str, not numbers"):
        read(Function(lambda directory: "x"), file(""))


# --- CalculiX: files that version 2.20 left, of a cantilever plate ------------------------------------------


def test_frequencies_of_calculix_are_the_same_in_both_files():
    dat, frd = (read(Calculix(f"plate.{kind}", "frequencies"), CALCULIX) for kind in ("dat", "frd"))
    assert dat == [12.29127, 83.24728, 124.7995]
    np.testing.assert_allclose(frd, dat, rtol=1e-6)


@pytest.mark.parametrize(
    ("file", "chosen", "expected"),
    [
        ("plate.dat", {"quantity": "displacements", "component": "z"}, [-1.97166e-3, -1.97166e-3]),
        ("plate.dat", {"quantity": "displacements", "component": "x", "nodes": [15]}, [1.753528e-17]),
        ("plate.dat", {"quantity": "displacements", "component": "z", "set": "tip", "mode": 2, "nodes": [5]},
         [-0.7771901]),
        ("plate.dat", {"quantity": "reactions", "component": "z", "time": 1.0}, [-13.66626, 47.33253, -13.66626]),
        ("plate.dat", {"quantity": "total reactions", "component": "z"}, [20.0]),
        ("plate.frd", {"quantity": "displacements", "component": "z", "nodes": [60, 28]}, [-1.97166e-3, -1.97166e-3]),
        ("plate.frd", {"quantity": "displacements", "component": "z", "nodes": [28], "mode": 2}, [-0.77719]),
    ],
)  # fmt: skip
def test_displacements_and_reactions_of_calculix(file, chosen, expected):
    np.testing.assert_allclose(read(Calculix(file, **chosen), CALCULIX), expected, rtol=1e-6)


def test_reactions_in_the_frd_file_balance_the_load():
    found = Calculix("plate.frd", "reactions", "z").read(CALCULIX)
    assert found.values.sum() == pytest.approx(0.0, abs=1e-3)
    assert found.values[found.values < -1e-3].sum() == pytest.approx(-found.values[found.values > 1e-3].sum(), rel=1e-4)


def test_what_calculix_did_not_write_is_named_with_what_there_is():
    with pytest.raises(OutputError, match="no such displacements; there are displacements of TIP at time 1, reactions"):
        read(Calculix("plate.dat", "displacements", "z", set="MIDDLE"), CALCULIX)
    with pytest.raises(OutputError, match=r"plate.dat, line 2: displacements of TIP at time 1 have no node 99"):
        read(Calculix("plate.dat", "displacements", "z", nodes=[99]), CALCULIX)
    with pytest.raises(ArgumentError, match="component must be x, y or z, and is not for frequencies; got None"):
        Calculix("plate.dat", "displacements")
    with pytest.raises(ArgumentError, match=r"file must be a .dat or .frd file of CalculiX"):
        Calculix("plate.out", "frequencies")


@pytest.mark.skipif(shutil.which("ccx") is None, reason="CalculiX is not installed: apt-get install calculix-ccx")
def test_a_step_after_that_of_the_modes_is_no_mode(tmp_path):
    shutil.copy(CALCULIX / "mesh.inc", tmp_path)
    head, static, modes = (CALCULIX / "plate.inp").read_text().split("*STEP\n")
    printed = "*NODE PRINT, NSET=TIP\nU\n*END STEP\n"
    modes = modes.replace("*END STEP\n", printed)
    (tmp_path / "plate.inp").write_text("*STEP\n".join([head, modes, static]))
    subprocess.run(["ccx", "plate"], cwd=tmp_path, check=True, capture_output=True, env={"OMP_NUM_THREADS": "1"})
    tip = read(Calculix("plate.dat", "displacements", "z", set="TIP"), tmp_path)
    np.testing.assert_allclose(tip, [-1.97166e-3] * 2, rtol=1e-5)
    shape = read(Calculix("plate.dat", "displacements", "z", set="TIP", mode=3), tmp_path)
    assert abs(shape[0] + shape[1]) < 1e-6 * abs(shape[0]) or abs(shape[0] - shape[1]) < 1e-6 * abs(shape[0])


def test_damaged_files_are_read_or_refused():
    # the long version: python tests/fuzz_outputs.py 6000 SEED
    command = [sys.executable, Path(__file__).parents[1] / "fuzz_outputs.py", "500", "3"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["other"] == []
    assert min(found["read"], found["refused"]) >= 100
    assert found["grown"] < 100
