"""Damages the files that programs leave in thousands of ways: a reader finds numbers there, or says what it saw.

python fuzz_outputs.py MUTATIONS SEED prints, as JSON, how many were read and refused, all that was neither, and by how
many MiB the process grew.
"""

import io
import json
import random
import resource
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from tbq.common.errors import OutputError
from tbq.readers import Calculix, Dataset, Json, Numbers, Output, Pattern, Table

CALCULIX = Path(__file__).parent / "assets/calculix"
TABLE = b"# solver 3.1\n  step  time [s]  drift\n     1  0.10  1.0D-03\n     2  0.20  -2.0E-03\n     3  0.35  4.0-103\n"
LOG = b"step 1\n tip -1.5E-03 m\nstep 2\n tip -3.0E-03 m\n"

WORDS = [
    *(b"nan", b"-inf", b"1e999", b"9" * 400, b"9" * 5000, b"1_0", b"1,5", b"***", b"-", b"", b" ", b"\n", b"\r"),
    *(b"\0", b"\x1b[2J", b"\xff\xfe", b"[" * 3000, b"{", b"#", b";", b"\t", b"\xd9\xa3", b"x" * 3000),
]


def corpus(folder):
    """Files of every kind, and ways to read each."""
    np.savez(folder / "r.npz", u=np.arange(12.0), v=np.ones((2, 2)))
    files = {name: (CALCULIX / name).read_bytes() for name in ("plate.dat", "plate.frd")}
    files |= {"t.txt": TABLE, "l.txt": LOG, "r.npz": (folder / "r.npz").read_bytes()}
    files["r.json"] = json.dumps({"modes": [{"f": 3.1, "shape": [1, [0.5, -1]]}], "n": None}).encode()
    ways = {
        "plate.dat": [Calculix("plate.dat", "frequencies"), *calculix("plate.dat")],
        "plate.frd": [Calculix("plate.frd", "frequencies"), *calculix("plate.frd")],
        "t.txt": [Table("t.txt", "drift"), Table("t.txt", 2), Table("t.txt", 1, -1), Table("t.txt", after="step")],
        "l.txt": [
            Pattern("l.txt", r"tip (\S+)"),
            Pattern("l.txt", r"step 2.*?tip (\S*)", whole=True),
            Numbers("l.txt"),
        ],
        "r.npz": [Dataset("r.npz", "u"), Dataset("r.npz", "v")],
        "r.json": [Json("r.json", "modes[0].f"), Json("r.json", "modes"), Numbers("r.json")],
    }
    try:
        import h5py
    except ImportError:
        return files, ways
    with h5py.File(folder / "r.h5", "w") as file:
        file["a/u"] = np.arange(12.0)
        file["b"] = h5py.SoftLink("/a/u")
    files["r.h5"] = (folder / "r.h5").read_bytes()
    return files, {**ways, "r.h5": [Dataset("r.h5", "a/u"), Dataset("r.h5", "b")]}


def calculix(file):
    for quantity in ("displacements", "reactions", "total reactions"):
        yield Calculix(file, quantity, "z")
        yield Calculix(file, quantity, "x", nodes=[1, 2], time=1.0)
        yield Calculix(file, quantity, "y", mode=1)


def damaged(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 4, 30, 1000])
        lines = data.split(b"\n")
        match rng.randrange(6):
            case 0:
                del data[at:]
            case 1:
                del data[at : at + length]
            case 2 if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
            case 3:
                line = rng.randrange(len(lines))
                data[:] = b"\n".join([*lines[:line], lines[rng.randrange(len(lines))], *lines[line:]])
            case _:
                data[at : at + rng.choice([0, length])] = rng.choice(WORDS)
    return bytes(data)


def bomb():
    """Zeros that a small file unpacks to."""
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            file.writestr("u.npy", bytes(300 * 2**20))
        return stream.getvalue()


def outcome(reader, folder):
    try:
        values = Output("u", reader).read(folder)
    except OutputError as error:
        return "refused" if len(str(error)) < 1000 else f"words: {str(error)[:200]!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read" if values.dtype == float and values.ndim == 1 else f"values: {values!r:.200}"


def main(mutations, seed):
    rng = random.Random(seed)
    counts, other = {"read": 0, "refused": 0}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, ways = corpus(folder)
        bombs = [bomb()]
        memory = peak()
        for i in range(mutations):
            file = rng.choice([*files])
            data = bombs[0] if file == "r.npz" and rng.random() < 0.02 else damaged(files[file], rng)
            (folder / file).write_bytes(data)
            found = outcome(reader := rng.choice(ways[file]), folder)
            if found in counts:
                counts[found] += 1
            else:
                other.append(f"{i}: {reader}: {found}")
    print(json.dumps({"mutations": mutations, **counts, "other": other, "grown": round((peak() - memory) / 1024)}))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
