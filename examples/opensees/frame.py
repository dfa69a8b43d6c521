"""A two-storey frame with a hysteretic damper (Bouc–Wen) in its first storey, in OpenSeesPy, under a short earthquake.

OpenSees keeps one model per process and can take the process along when it fails, so runs belong in processes of
their own: `workers` in the case file.
"""

import numpy as np
import openseespy.opensees as ops

MASS = 20e3  # kg, of each floor
HEIGHT, BAY = 3.0, 6.0  # m
STEEL, COLUMN = 210e9, 1.2e-5  # Pa, m⁴: of the columns
STEP, DURATION = 0.01, 6.0  # s
TIMES = np.arange(0.15, DURATION + 1e-9, 0.15)  # s, of the measurements


def ground(time):
    """Acceleration of the ground in m/s²: two bursts."""
    envelope = np.exp(-(((time - 1.2) / 0.5) ** 2)) + 0.6 * np.exp(-(((time - 2.8) / 0.6) ** 2))
    return 3.0 * envelope * np.sin(2 * np.pi * 1.5 * time)


def displacements(theta):
    """Of the roof in mm at TIMES; theta: stiffness (MN/m), ratio after yielding and yield force (kN) of the damper, and
    damping ratio of the frame."""
    stiffness, after, force, damping = theta[0] * 1e6, theta[1], theta[2] * 1e3, theta[3]
    build(stiffness, after, stiffness / force, damping)
    steps = round(DURATION / STEP)
    found = np.empty(steps)
    for i in range(steps):
        if ops.analyze(1, STEP) != 0:
            raise RuntimeError(f"OpenSees does not converge at {STEP * (i + 1):.2f} s")
        found[i] = 1e3 * ops.nodeDisp(5, 1)
    return found[np.rint(TIMES / STEP).astype(int) - 1]


def build(stiffness, after, curvature, damping):
    """Two columns and a stiff beam per storey; nodes 1, 2 at the ground, 3, 4 and 5, 6 at the floors."""
    ops.wipe()
    ops.model("basic", "-ndm", 2, "-ndf", 3)
    for storey in range(3):
        for side in range(2):
            ops.node(1 + 2 * storey + side, BAY * side, HEIGHT * storey)
    for node in (1, 2):
        ops.fix(node, 1, 1, 1)
    for node in (3, 4, 5, 6):
        ops.mass(node, MASS / 2, 1e-3 * MASS, 1e-3 * MASS)
    ops.geomTransf("Linear", 1)
    for column, (low, high) in enumerate([(1, 3), (2, 4), (3, 5), (4, 6)], 1):
        ops.element("elasticBeamColumn", column, low, high, 1e-2, STEEL, COLUMN, 1)
    for beam, (left, right) in enumerate([(3, 4), (5, 6)], 5):
        ops.element("elasticBeamColumn", beam, left, right, 1e-2, STEEL, 20 * COLUMN, 1)
    # of the damper: force = after·k·x + (1 − after)·k·z, where z ends at 1 / curvature
    ops.uniaxialMaterial("BoucWen", 1, after, stiffness, 1.0, curvature / 2, curvature / 2, 1.0, 0.0, 0.0, 0.0)
    ops.node(7, 0.0, HEIGHT)
    ops.fix(7, 1, 1, 1)
    ops.element("zeroLength", 7, 7, 3, "-mat", 1, "-dir", 1)
    history = ground(STEP * np.arange(round(DURATION / STEP) + 1))
    ops.timeSeries("Path", 1, "-dt", STEP, "-values", *history)
    ops.pattern("UniformExcitation", 1, 1, "-accel", 1)
    first = np.sqrt(ops.eigen(1)[0])
    ops.rayleigh(0.0, 0.0, 2 * damping / first, 0.0)
    ops.constraints("Plain")
    ops.numberer("RCM")
    ops.system("BandGeneral")
    ops.test("NormDispIncr", 1e-10, 50)
    ops.algorithm("Newton")
    ops.integrator("Newmark", 0.5, 0.25)
    ops.analysis("Transient")
