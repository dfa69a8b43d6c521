"""Studies of the command line: the paper's experiments, calibration, our own time."""
