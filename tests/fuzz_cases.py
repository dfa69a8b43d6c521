"""Damages case files in thousands of ways: loading one ends in a case or in a ``TbqError``, and runs nothing.

python fuzz_cases.py MUTATIONS SEED prints, as JSON, how many were refused and accepted, and all that was neither.
"""

import copy
import json
import random
import re
import sys
import tempfile
import warnings
from pathlib import Path

import tomli_w
from fuzz_files import places

import tbq
from tbq.cli import casefile

MODEL = "raise SystemExit('a case was loaded, and the model ran')\n"

CASES = [
    {
        "title": "a spring",
        "correlation": [[1.0, 0.2], [0.2, 1.0]],
        "parameters": {
            "k": {"distribution": "uniform", "low": 0.0, "high": 2.0, "unit": "N/m"},
            "m": {"distribution": "lognormal", "median": 1.0, "log_sd": 0.5},
        },
        "model": {"python": "hostile_model:force"},
        "data": {"observed": [1.2, 3.4], "noise": {"file": "noise.csv", "column": "sd"}, "normalized": True},
        "run": {"seed": 3, "tolerance": [0.1, 0.04], "max_evaluations": 40, "timeout": 5.0, "workers": 2},
    },
    {
        "parameters": {
            "k": {"distribution": "gamma", "a": 2.0},
            "s": {"distribution": "loguniform", "low": 0.1, "high": 1},
        },
        "model": {
            "command": ["sh", "sim.sh", "{k}"],
            "output": "stdout.txt",
            "template": "in.txt",
            "files": ["sim.sh"],
        },
        "data": {"observed": 1.0, "noise": [[0.1]], "scale": "s"},
    },
    {
        "parameters": {"k": {"distribution": "truncated_normal", "mean": 0, "sd": 1, "low": -1, "high": 1}},
        "model": {"url": "http://127.0.0.1:1", "name": "m", "config": {"a": [1]}, "returns": "log_likelihood"},
    },
    {
        "parameters": {"k": {"distribution": "uniform", "low": 0, "high": 2}},
        "model": {
            "command": ["solver", "{k*1e3:.3E}"],
            "template": ["in.txt"],
            "links": ["noise.csv"],
            "environment": {"STIFFNESS": "{k:8}"},
            "prelude": ["touch ran"],
            "licences": 2,
            "transient": [75],
        },
        "outputs": [
            {
                "name": "f",
                "file": "a.dat",
                "calculix": "frequencies",
                "take": [1, -1],
                "observed": [1.0, 2.0],
                "noise": 0.1,
            },
            {"name": "u", "file": "a.json", "key": "u[0].x", "observed": 1.0, "noise": 0.1, "unit": "mm"},
            {
                "name": "h",
                "file": "h.csv",
                "column": "u",
                "against": "t",
                "coordinates": [0.1, 0.2],
                "observed": [1.0, 2.0],
                "noise": 0.1,
            },
            {"name": "p", "python": "hostile_model:force", "observed": [0.0], "noise": 1.0},
            {
                "name": "q",
                "file": "stdout.txt",
                "pattern": "q=(.*)",
                "whole": True,
                "take": -1,
                "observed": 0,
                "noise": 1,
            },
        ],
        "run": {"seed": 1, "outage_after": [5, 8], "patience": 10.0, "retries": 1},
    },
    {
        "parameters": {"k": {"distribution": "uniform", "low": 0, "high": 2}},
        "model": {"python": "hostile_model:force", "coarse": {"python": "hostile_model:force", "cost": 0.1}},
        "data": {
            "observed": [1.0, 2.0, 3.0],
            "coordinates": [0.0, 0.5, 1.0],
            "noise": {"prior": {"distribution": "halfnorm", "scale": 0.2}},
            "correlation": {"kind": "exponential", "length": 0.3},
            "discrepancy": {"amplitude": 0.1, "length": 0.5},
            "relative": 0.05,
        },
    },
]

NASTY = [
    True,
    -1,
    0,
    10**400,
    float("nan"),
    float("inf"),
    -1e308,
    5e-324,
    "",
    " ",
    "test",
    "poisson",
    "os:system",
    "../../../etc/passwd",
    "/dev/zero",
    "noise.csv",
    "file:///etc/passwd",
    "a\nb",
    "\x1b[2J\x07",
    "x" * 5000,
    "(a+)+$",
    "{k.__class__}",
    [],
    [[]],
    [[1.0], [2.0, 3.0]],
    {},
    {"file": "."},
    {"file": "noise.csv", "column": "sd"},
    {"": {}},
]


def of_values(case, rng):
    """Another value, key or shape somewhere."""
    case = copy.deepcopy(case)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not (left := list(places(case))):
            break
        owner, key = rng.choice(left)
        match rng.randrange(5):
            case 0:
                owner.pop(key)
            case 1 if isinstance(owner, dict):
                owner[rng.choice(["", "distribution", "file", "a/b", "\x1b", key + "x"])] = owner.pop(key)
            case 2:
                other, place = rng.choice(list(places(rng.choice(CASES))))
                owner[key] = copy.deepcopy(other[place])
            case _:
                owner[key] = copy.deepcopy(rng.choice(NASTY))
    return tomli_w.dumps(case).encode()


def of_bytes(case, rng):
    """Another byte, or fewer."""
    text = bytearray(tomli_w.dumps(case).encode())
    for _ in range(rng.choice([1, 3])):
        text[rng.randrange(len(text))] = rng.randrange(256)
    return bytes(text[: rng.choice([len(text), rng.randrange(len(text))])])


def outcome(path):
    try:
        case = casefile.load(path)
        models = [case.simulator(path.parent / "work", level) for level in ("fine", "coarse")[: 1 + case.has_coarse]]
        case.log_likelihood(*models)
    except tbq.TbqError as error:
        return "refused" if str(error) else "no words"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    try:  # what a run leaves in its folder is what it goes on with
        again = path.with_name("again.toml")
        again.write_text(text := case.resolved(1).to_toml(), encoding="utf-8")
        same = whole(casefile.load(again).to_toml()) == whole(text)
        return "accepted" if same else "another case"
    except BaseException as error:
        return f"again: {type(error).__name__}: {str(error)[:200]}"


def whole(text):
    """Whole numbers alike, whether they have a point or not."""
    return re.sub(r"\b(\d+)\.0\b", r"\1", text)


def main(mutations, seed):
    rng = random.Random(seed)
    counts, other = {"refused": 0, "accepted": 0}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hostile_model.py").write_text("def force(theta):\n    " + MODEL)
        (folder / "sim.sh").write_text("touch ran; exit 1\n")
        (folder / "in.txt").write_text("k = {k}\n")
        (folder / "noise.csv").write_text("sd\n0.1\n0.2\n")
        for i in range(mutations):
            mutate = rng.choice([of_values, of_values, of_values, of_bytes])
            (folder / "case.toml").write_bytes(mutate(rng.choice(CASES), rng))
            found = outcome(folder / "case.toml")
            if found in counts:
                counts[found] += 1
            else:
                other.append(f"{i}: {found}")
        if list(folder.rglob("ran")):
            other.append("the model ran")
    print(json.dumps({"mutations": mutations, **counts, "other": other}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*(int(a) for a in sys.argv[1:]))
