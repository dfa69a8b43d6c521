"""Damages and crafts result files in thousands of ways: ``tbq.load`` refuses them in one sentence, or reads a result.

python fuzz_files.py MUTATIONS SEED [FOLDER] prints, as JSON, what came of them: how many were refused and read,
everything that was neither (and leaves those files in FOLDER), and by how many MiB the process grew.
"""

import copy
import io
import json
import random
import resource
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
from scipy import stats

import tbq

ASSET = Path(__file__).parent / "assets/result_format_1.tbq"
TEXT = "result.json"

NASTY = [
    None,
    True,
    -1,
    0,
    1e308,
    -1e-308,
    10**400,
    "",
    "nan",
    "x" * 5000,
    "\x1b[2J\x00\u202e",
    [],
    [[]],
    {},
    {"number": "nan"},
    {"number": "inf"},
    {"number": []},
    {"array": "samples"},
    {"array": "weights"},
    {"array": "../../etc/passwd"},
    {"array": None},
]
NAMES = [
    "test",
    "rv_continuous",
    "gaussian_kde",
    "poisson",
    "multivariate_normal",
    "norm",
    "cauchy",
    "__class__",
    "qmc",
]


def corpus(folder):
    """Files of every kind: log-likelihoods with a border and without, outputs, unknown noise, a posterior as prior."""
    first = tbq.load(ASSET)
    options = {"algorithm": "bq", "seed": 0, "max_evaluations": 14, "population": 200, "progress": False}

    def log_likelihood(theta):
        return -2.0 * (theta[0] - 0.4) ** 2 - 3.0 * (theta[1] - 1.0 - theta[0] ** 2) ** 2

    plain = tbq.infer(log_likelihood, first.prior, **options)
    outputs = tbq.infer(tbq.GaussianLikelihood(np.cumsum, [0.4, 1.2], [0.3, 0.4]), first.prior, **options)
    chained = tbq.infer(log_likelihood, outputs.as_prior(), **options)
    files = [ASSET.read_bytes()]
    for result in (plain, outputs, chained, noisy(first.prior, **options)):
        result.save(folder / "whole.tbq")
        files.append((folder / "whole.tbq").read_bytes())
    return files


def noisy(prior, **options):
    """Two fidelities, groups of correlated noise that is not known, gaps, a discrepancy."""
    t = np.linspace(0.0, 1.0, 6)
    likelihood = tbq.GaussianLikelihood(
        lambda theta: theta[0] + theta[1] * np.exp(-t),
        [1.0, 0.9, 0.6, 0.5, np.nan, 0.4],
        {"early": stats.halfnorm(0, 0.2), "late": 0.1},
        groups={"early": slice(0, 3), "late": slice(3, 6)},
        coordinates=t,
        correlation=tbq.Exponential(stats.uniform(0.1, 1.0)),
        discrepancy=tbq.Discrepancy(stats.halfnorm(0, 0.1), 0.5),
        relative=0.02,
        coarse=lambda theta: theta[0] + theta[1] * (1.0 - t),
        cost=0.05,
    )
    return tbq.infer(likelihood, prior, **options)


# --- mutations: of bytes, of the text, of arrays, of the zip file ---------------------------------------------------


def of_bytes(data, rng):
    data = bytearray(data)
    at, length = rng.randrange(len(data)), rng.choice([1, 4, 100, 5000])
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 8])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[at:]
        case 2:
            del data[at : at + length]
        case 3:
            data[at : at + length] = bytes(length)
        case 4:
            data[at:at] = rng.randbytes(length)
        case _:  # the directory at the end, where a zip file begins
            for _ in range(4):
                data[-rng.randrange(1, min(400, len(data)))] = rng.randrange(256)
    return bytes(data)


def of_text(data, rng):
    members = unpacked(data)
    text = json.loads(members[TEXT])
    for _ in range(rng.choice([1, 1, 2, 5])):
        owner, key = rng.choice(list(places(text)))
        match rng.randrange(6):
            case 0:
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[f"{key}x"] = owner.pop(key)
            case 2:
                other, place = rng.choice(list(places(text)) or [(owner, key)])
                owner[key] = copy.deepcopy(other[place])
            case 3:
                owner[key] = nested(rng.choice([50, 500, 100_000]))
            case 4 if marginals := list(of_key(text, "distribution")):
                rng.choice(marginals)["distribution"] = rng.choice(NAMES)
            case _:
                owner[key] = copy.deepcopy(rng.choice(NASTY))
        if not list(places(text)):
            break
    members[TEXT] = dumps(text)
    return packed(members)


def of_arrays(data, rng):
    members = unpacked(data)
    name = rng.choice([n for n in members if n != TEXT])
    array = np.load(io.BytesIO(members[name]))
    match rng.randrange(7):
        case 0:
            array.flat[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -1e300, 1e300, 0.0])
        case 1:
            array = array[: rng.randrange(len(array) + 1)]
        case 2:
            array = array.reshape(rng.choice([(-1,), (-1, 1), (1, -1), (1, 1, -1)]))
        case 3:
            array = array.astype(rng.choice([int, np.float32, complex, "U8", bool, "datetime64[s]"]))
        case 4:
            array = np.array([{"a": 1}, None], dtype=object)
        case 5:  # a header that promises more than there is
            members[name] = header("<f8", rng.choice(["(10**6,)", "(10000000000,)", "(-1, -8)", "(3.5,)", "()"]))
            return packed(members)
        case _:  # points without end, which cost nothing to write down
            array = np.zeros((rng.choice([30_000, 300_000]), *array.shape[1:]))
    with io.BytesIO() as file:
        np.save(file, array, allow_pickle=True)
        members[name] = file.getvalue()
    return packed(members)


def of_zip(data, rng):
    members = unpacked(data)
    name = rng.choice(list(members))
    match rng.randrange(7):
        case 0:
            del members[name]
        case 1:
            members[name] = bytes(rng.choice([10, 200 * 2**20]))  # a bomb
        case 2:
            members[TEXT] = rng.choice([b"[" * 10**7, b"[" + b"{}," * 10**7 + b"{}]", b"1", b"", b"\xff\xfe", b"null"])
        case 3:
            members["extra.npy"] = bytes(200 * 2**20)  # not named by the text, and so not read
        case 4:
            return packed(members, rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
        case 5:
            other = unpacked(rng.choice(FILES))
            members[name] = other.get(name, b"")
        case _:  # sizes and flags in the directory that are not true
            whole = bytearray(packed(members))
            at = whole.rfind(b"PK\x01\x02")
            whole[at + rng.choice([8, 10, 16, 20, 24, 42])] ^= 1 << rng.randrange(8)
            return bytes(whole)
    return packed(members)


def unpacked(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(members, packing=zipfile.ZIP_DEFLATED):
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w", packing, compresslevel=1) as file:
            for name, content in members.items():
                file.writestr(name, content)
        return stream.getvalue()


def header(dtype, shape):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


def nested(depth):
    return NESTED.format(depth)


NESTED = "<<nested {}>>"  # JSON's own writer cannot write it


def dumps(text):
    written = json.dumps(text)
    for depth in (50, 500, 100_000):
        written = written.replace(f'"{NESTED.format(depth)}"', "[" * depth + "]" * depth)
    return written.encode()


def places(value):
    """Every place in a tree, as its owner and the key or index there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


def of_key(value, key):
    return (owner for owner, k in places(value) if k == key)


# --- what comes of them ---------------------------------------------------------------------------------------------


def outcome(path):
    try:
        result = tbq.load(path)
    except tbq.TbqError as error:
        words = str(error)
        return (
            "refused" if "\n" not in words and words.isprintable() and len(words) < 600 else f"words: {words[:200]!r}"
        )
    except BaseException as error:
        return f"load: {type(error).__name__}: {str(error)[:200]}"
    try:
        if result.surrogate is not None:
            result.log_density(result.samples)
            result.density_sd(result.samples[:10])
        result.summary()
    except tbq.TbqError:
        pass
    except BaseException as error:
        return f"use: {type(error).__name__}: {str(error)[:200]}"
    return "read"


def main(mutations, seed, keep=None):
    rng = random.Random(seed)
    counts, other = {"refused": 0, "read": 0}, []
    with tempfile.TemporaryDirectory() as folder:
        FILES[:] = corpus(Path(folder))
        path = Path(folder) / "mutated.tbq"
        for _ in range(3):  # what reading takes at best
            path.write_bytes(FILES[-1])
            assert outcome(path) == "read"
        memory = peak()
        for i in range(mutations):
            data = rng.choice([of_bytes, of_text, of_text, of_arrays, of_zip])(rng.choice(FILES), rng)
            path.write_bytes(data)
            found = outcome(path)
            if found in counts:
                counts[found] += 1
            else:
                other.append(f"{i}: {found}")
                if keep:
                    Path(keep, f"{i}.tbq").write_bytes(data)
    print(json.dumps({"mutations": mutations, **counts, "other": other, "grown": round((peak() - memory) / 1024)}))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


FILES = []

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*(int(a) for a in sys.argv[1:3]), *sys.argv[3:])
