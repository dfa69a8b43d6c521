"""A UM-Bridge server of the two-storey frame: storey stiffnesses in, natural frequencies in Hz out."""

import sys

import numpy as np
import umbridge


class Frame(umbridge.Model):
    def __init__(self):
        super().__init__("frame")

    def get_input_sizes(self, config):
        return [2]

    def get_output_sizes(self, config):
        return [2]

    def supports_evaluate(self):
        return True

    def __call__(self, parameters, config):
        k1, k2 = 29.7e6 * np.array(parameters[0])
        stiffness = np.array([[k1 + k2, -k2], [-k2, k2]]) / np.array([[16.5e3], [16.1e3]])
        return [list(np.sqrt(np.sort(np.linalg.eigvals(stiffness))) / (2 * np.pi))]


if __name__ == "__main__":
    umbridge.serve_models([Frame()], port=int(sys.argv[1]) if len(sys.argv) > 1 else 4242)
