"""A stand-in for an expensive simulator: reads a file of values, writes the frame's two natural frequencies in Hz."""

import math
import sys

with open(sys.argv[1]) as file:
    lines = [line.partition("#")[0] for line in file]
values = {name.strip(): float(value) for name, _, value in (line.partition("=") for line in lines) if value}

a, b = 29.7e6 * values["k1"], 29.7e6 * values["k2"]
trace = (a + b) / values["m1"] + b / values["m2"]  # of M⁻¹K; its determinant next
determinant = a * b / (values["m1"] * values["m2"])
root = math.sqrt(trace**2 / 4 - determinant)
with open("frequencies.txt", "w") as output:
    for squared in (determinant / (trace / 2 + root), trace / 2 + root):
        print(math.sqrt(squared) / (2 * math.pi), file=output)
