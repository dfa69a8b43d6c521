"""Tables of measurements as people have them: read rightly, or refused with the line and what stands there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbq.common import errors
from tbq.simulate.textfiles import read_csv


@pytest.fixture
def table(tmp_path):
    def read(content, column=None):
        path = tmp_path / "m.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_csv(path, column)

    return read


def test_columns_of_a_csv_file(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("# from the lab\nmode,frequency,sd\nfirst,3.13,0.2\nsecond,9.83,0.6\n")
    assert read_csv(path, "frequency") == [3.13, 9.83]
    with pytest.raises(errors.ArgumentError, match=r"m.csv has no column 'freq'; its header is mode, frequency, sd"):
        read_csv(path, "freq")
    with pytest.raises(errors.ArgumentError, match=r"m.csv, line 3: 'first' is not a number"):
        read_csv(path)
    path.write_text("f\n1\n2\n")
    assert read_csv(path) == [1, 2]
    path.write_text("1, 2\n3, 4\n")
    assert read_csv(path) == [[1, 2], [3, 4]]
    path.write_text("1,2\n3\n")
    with pytest.raises(errors.ArgumentError, match=r"m\.csv, line 2: it has 1 cells, and the first row 2"):
        read_csv(path)


@pytest.mark.parametrize(
    ("content", "column", "expected"),
    [
        ("t;f\n1,5;2,5\n3;4,25\n", "f", [2.5, 4.25]),
        ("t;f\n1,5;2,5\n3;4,25\n", None, [[1.5, 2.5], [3.0, 4.25]]),
        ("t;f\n1.5;2.5\n", "f", [2.5]),
        ("mode;f\nv1.2;2,5\n", "f", [2.5]),  # points in another column decide nothing
        ("1.5;2.5\n3;4\n", None, [[1.5, 2.5], [3.0, 4.0]]),
        ("f;\n1,5e-3;\n", "f", [1.5e-3]),
        ("t\tf\n1,5\t2\n", "t", [1.5]),
        (b"\xef\xbb\xbff\r\n1\r\n2\r\n", "f", [1.0, 2.0]),
        ("f\n1\n2\n".encode("utf-16"), "f", [1.0, 2.0]),
        ("f\r1\r2", "f", [1.0, 2.0]),
        ("t,f\n1,2,\n3,4,\n", "f", [2.0, 4.0]),  # as some programs end a line
        ("t,f,\n1,2,\n3,4,\n", None, [[1.0, 2.0], [3.0, 4.0]]),
        ("f\n1.5D+03\n-2.d-1\n", None, [1500.0, -0.2]),
        ('"a,b","c;""d"\n1,2\n', "a,b", [1.0]),
        ('"a,b","c;""d"\n1,2\n', 'c;"d', [2.0]),
        ("1,2,3\n4,5,6\n", None, [[1, 2, 3], [4, 5, 6]]),
        ("1990,1991,1992\n1,2,3\n", None, [[1990, 1991, 1992], [1, 2, 3]]),
        ("1,2\n0.5,1\n", None, [[1, 2], [0.5, 1]]),
        ("a,b\n1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("mode,1,2\n1,3,4\n", "2", [4.0]),  # asked for by its name, it is one
        ("nan\n1\n2\n", None, [np.nan, 1.0, 2.0]),
        ("1,nan\n2,-inf\n", None, [[1.0, np.nan], [2.0, -np.inf]]),
    ],
)
def test_tables_are_read_as_they_are_meant(table, content, column, expected):
    np.testing.assert_array_equal(table(content, column), expected)


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("f\n1,5\n", "f", "line 2: it has 2 cells, and the header 1; for decimal commas, separate cells by semicolons"),
        ("t,f\n1,2\n3,4,5\n", "f", "line 3: it has 3 cells, and the header 2"),
        ("t;f\n1;2\n3\n", "t", "line 3: it has 1 cells, and the header 2"),
        ("t;f\n1;2,5\n3;2.5\n", "f", "'2,5' in line 2 has a comma, '2.5' in line 3 a point; write all"),
        ("t;f\n1;1.234,5\n", "f", "line 2: '1.234,5' is not a number"),
        ('f\n"1,5"\n', "f", "line 2: '1,5' is not a number"),
        ("f\n1\n\n1_000\n", "f", "line 4: '1_000' is not a number"),
        ("f\n[Hz]\n1\n", "f", r"line 2: '\[Hz\]' is not a number"),
        ("f\n\u0663\n", "f", "line 2: '\u0663' is not a number"),
        ("1,2,x\n3,4,5\n", None, "line 1: is this a header\\? It has 'x' beside numbers"),
        ("1,2,3\n4,5,6\n", "f", "has no column 'f'; its header is missing"),
        ("# f\n1,5\n2,25\n", None, "line 2: '1,5' may be one number or two; name the columns in a first line"),
        ("f,f\n1,2\n", "f", "has 2 columns called 'f'; its header is f, f"),
        ("f\ngr\u00f6\u00dfe\n".encode("latin-1"), "f", "line 2: this is not UTF-8; save the file as UTF-8"),
        ('f\n"1\n', "f", "line 2: unexpected end of data"),
        ("f\n" + "1" * 200_000, "f", "line 2: field larger than field limit"),
        ("# nothing\n", None, "has no numbers"),
        ("f\n", "f", "has no numbers"),
    ],
)
def test_what_could_be_misread_is_refused_with_its_line(table, content, column, message):
    with pytest.raises(errors.ArgumentError, match=f"m.csv.*{message}"):
        table(content, column)


@given(
    numbers=st.lists(st.floats(allow_nan=False), min_size=2, max_size=5),
    separator=st.sampled_from(";\t,"),
    comma=st.booleans(),
    header=st.booleans(),
)
def test_numbers_come_back_however_they_are_written(tmp_path_factory, numbers, separator, comma, header):
    path = tmp_path_factory.mktemp("tables") / "m.csv"
    words = [repr(v).replace(".", "," if comma and separator != "," else ".") for v in numbers]
    lines = [separator.join(f"c{i}" for i in range(len(words)))] * header + [separator.join(words)] * 2
    path.write_text("\n".join(lines))
    np.testing.assert_array_equal(read_csv(path), [numbers, numbers])


@given(st.binary(max_size=60) | st.text(alphabet="1,;.\t\n\r\"'#-eax ", max_size=40).map(str.encode), st.booleans())
def test_anything_is_read_or_refused(tmp_path_factory, content, named):
    path = tmp_path_factory.mktemp("tables") / "m.csv"
    path.write_bytes(content)
    try:
        numbers = read_csv(path, "a" if named else None)
    except errors.ArgumentError:
        return
    assert np.asarray(numbers).dtype == float
