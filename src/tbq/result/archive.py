"""A description of numbers, words and arrays in one zip file of ``result.json`` and NumPy arrays. No pickles.

A file may come from anybody: only the arrays that its text names are read, only floats, and no more than a bounded
amount of memory is used to find out that it is not what it says.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tbq.common.errors import TbqError
from tbq.common.types import Array
from tbq.common.words import described, one_line

Description = Mapping[str, Any]  # of numbers, words, arrays, and lists and mappings of them
T = TypeVar("T")

FORMAT = 1
_TEXT = "result.json"
_ROOM = 32 * 2**20  # bytes that a file may unpack to, however small it is
_EXPANSION = 20  # or times its own size: floats do not shrink at all, and their text not to less than a third
_DEEPEST = 200  # levels of lists and mappings; a posterior that was a prior takes two, a surrogate six
_MOST_PARTS = 2_000_000  # lists and mappings: a hundred bytes each, when their text is two. An evaluation has three
_TYPES: Mapping[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "str": (str,)}  # by their annotation


class DamagedError(TbqError):
    """A file is not what it should be."""


def write(path: Path, description: Description) -> None:
    """Write a description to one file, whole or not at all."""
    arrays: dict[str, Array] = {}
    text = json.dumps(_pack({"format": FORMAT, **description}, "", arrays), allow_nan=False)
    part = path.with_name(f"{path.name}.part")
    try:
        size = _write(part, text, arrays, zipfile.ZIP_DEFLATED)
        if size > _room(part):  # all zeros, say, which shrink as a bomb does
            _write(part, text, arrays, zipfile.ZIP_STORED)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TbqError(f"save: {path} cannot be written: {error.strerror}") from error


def _write(path: Path, text: str, arrays: Mapping[str, Array], packing: int) -> int:
    """Bytes that it will unpack to."""
    with zipfile.ZipFile(path, "w", packing) as file:
        file.writestr(_TEXT, text)
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        return sum(info.file_size for info in file.infolist())


def _room(path: Path) -> int:
    return max(_ROOM, _EXPANSION * path.stat().st_size)


def read(path: Path) -> Description:
    """The description in a file."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise OSError("it is not a file")
        with zipfile.ZipFile(path) as file:
            members = _Members(file, _room(path))
            text = _parsed(members.content(_TEXT))
            if text["format"] == FORMAT:
                return _unpack(text, members, _DEEPEST)
    except OSError as error:
        raise TbqError(f"load: {path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # whatever a crafted file can bring about
        why = str(error) if isinstance(error, DamagedError) else described(error)
        raise DamagedError(f"load: {path} is not a result that tbq saved, or it is damaged: {one_line(why)}") from error
    written = one_line(f"{text['format']} of tbq {text.get('version')}", 60)
    raise TbqError(f"load: {path} has format {written}; this tbq reads format {FORMAT}")


class _Members:
    """What a zip file holds, as long as there is room for it."""

    def __init__(self, file: zipfile.ZipFile, room: int) -> None:
        self._file, self._room, self._most = file, room, room
        self._arrays: dict[str, Array] = {}

    def content(self, name: str) -> bytes:
        info = self._file.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DamagedError(f"{name} is packed in a way that tbq does not use")
        self._room -= info.file_size
        if self._room < 0:
            raise DamagedError(f"it would unpack to more than {self._most >> 20} MiB")
        with self._file.open(info) as member:
            content = member.read(info.file_size)  # without a size all that is there would be unpacked at once
        if len(content) != info.file_size:
            raise DamagedError(f"{name} is cut short")
        return content

    def array(self, name: str) -> Array:
        if name not in self._arrays:
            self._arrays[name] = _array(self.content(f"{name}.npy"), name)
        return self._arrays[name]


def _array(content: bytes, name: str) -> Array:
    """An array of floats. NumPy's own reader would make room for any shape before it looks at what is there."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, columns_first, dtype = header(stream)
    start = stream.tell()
    if dtype.kind != "f" or dtype.itemsize != 8 or len(content) - start != 8 * math.prod(shape):
        raise DamagedError(f"{name} is not an array of floats with the shape that it says")
    return np.array(np.frombuffer(content, dtype, offset=start).reshape(shape, order="F" if columns_first else "C"))


def _parsed(content: bytes) -> dict[str, Any]:
    if content.count(b"{") + content.count(b"[") > _MOST_PARTS:
        raise DamagedError(f"its text has more than {_MOST_PARTS} parts")
    value = json.loads(content.decode())
    if not isinstance(value, dict):
        raise DamagedError("its text is not a description")
    return value


def _pack(value: Any, name: str, arrays: dict[str, Array], room: int = _DEEPEST) -> Any:
    """The same with arrays moved to ``arrays`` under the path that leads to them, and numbers as JSON has them."""
    if room == 0:
        raise TbqError(f"save: what is to be stored has more than {_DEEPEST} levels: too long a chain of posteriors")
    if isinstance(value, Mapping):
        return {k: _pack(v, f"{name}.{k}" if name else k, arrays, room - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(v, f"{name}.{i}", arrays, room - 1) for i, v in enumerate(value)]
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"number": str(float(value))}
    return value.item() if isinstance(value, np.generic) else value


def _unpack(value: Any, members: _Members, room: int) -> Any:
    if room == 0:
        raise DamagedError(f"its text has more than {_DEEPEST} levels")
    if isinstance(value, list):
        return [_unpack(v, members, room - 1) for v in value]
    if not isinstance(value, dict):
        return value
    if [*value] == ["array"]:
        return members.array(value["array"])
    return (
        float(value["number"])
        if [*value] == ["number"]
        else {k: _unpack(v, members, room - 1) for k, v in value.items()}
    )


# --- what a description must have ---------------------------------------------------------------------------


def real(d: Description, key: str) -> float:
    """A number; it may be infinite or nan."""
    value = d[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DamagedError(f"{key} is not a number")
    return float(value)


def array(d: Description, key: str, *shape: int | None) -> Array:
    """An array of finite numbers; None is any length."""
    value = d[key]
    if not isinstance(value, np.ndarray) or value.ndim != len(shape) or not np.all(np.isfinite(value)):
        raise DamagedError(f"{key} is not an array of finite numbers with {len(shape)} dimensions")
    if any(wanted not in (None, n) for wanted, n in zip(shape, value.shape, strict=True)):
        raise DamagedError(f"{key} has the shape {value.shape}, which does not fit the others")
    return value


def made(kind: type[T], d: Description) -> T:
    """A dataclass of numbers and words."""
    types = {f.name: _TYPES[str(f.type)] for f in fields(kind)}  # type: ignore[arg-type]
    for name, value in d.items():
        if isinstance(value, bool) or not isinstance(value, types[name]):
            raise DamagedError(f"{name} of a {kind.__name__} is {one_line(repr(value), 40)}")
    return kind(**{k: float(v) if float in types[k] else v for k, v in d.items()})
