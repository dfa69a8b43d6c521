"""Writes mesh.inc: a cantilever plate of 0.6 m by 0.3 m, of shells, whose outer half may be thinner."""

from pathlib import Path

NX, NY, LENGTH, WIDTH = 12, 4, 0.6, 0.3


def node(i: int, j: int) -> int:
    return j * (NX + 1) + i + 1


def elements(columns: range) -> list[str]:
    corners = [(node(i, j), node(i + 1, j), node(i + 1, j + 1), node(i, j + 1)) for j in range(NY) for i in columns]
    first = 1 + NY * columns.start
    return [", ".join(map(str, (first + e, *corner))) for e, corner in enumerate(corners)]


lines = ["*NODE, NSET=NALL"]
lines += [
    f"{node(i, j)}, {LENGTH * i / NX:.6g}, {WIDTH * j / NY:.6g}, 0." for j in range(NY + 1) for i in range(NX + 1)
]
lines += ["*ELEMENT, TYPE=S4, ELSET=INNER", *elements(range(NX // 2))]
lines += ["*ELEMENT, TYPE=S4, ELSET=OUTER", *elements(range(NX // 2, NX))]
lines += ["*NSET, NSET=ROOT", ", ".join(str(node(0, j)) for j in range(NY + 1))]
lines += ["*NSET, NSET=MIDDLE", str(node(NX // 2, NY // 2))]
lines += ["*NSET, NSET=TIP", f"{node(NX, 0)}, {node(NX, NY)}"]
Path(__file__).with_name("mesh.inc").write_text("\n".join(lines) + "\n")
