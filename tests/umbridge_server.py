"""A real UM-Bridge server for the tests: one model that works and several that do not."""

import sys
import time

import numpy as np
import umbridge


class Model(umbridge.Model):
    def __init__(self, name, answer, inputs=(1, 2), outputs=(2,)):
        super().__init__(name)
        self.answer, self.inputs, self.outputs = answer, list(inputs), list(outputs)

    def get_input_sizes(self, config):
        return self.inputs

    def get_output_sizes(self, config):
        return self.outputs

    def supports_evaluate(self):
        return self.name != "mute"

    def __call__(self, parameters, config):
        return self.answer(parameters, config)


def forward(parameters, config):
    (a,), (b, c) = parameters
    return [[config.get("factor", 1.0) * (a + b), a * c]]


def slow(parameters, config):
    time.sleep(3.0)
    return forward(parameters, config)


def raises(parameters, config):
    raise RuntimeError("mesh tangled")


MODELS = [
    Model("forward", forward),
    Model("two vectors", lambda p, config: [[p[0][0]], [p[1][0], p[1][1]]], outputs=(1, 2)),
    Model("numpy", lambda p, config: [list(np.array(p[1]))]),
    Model("raises", raises),
    Model("nan", lambda p, config: [[1.0, float("nan")]]),
    Model("infinite", lambda p, config: [[float("-inf"), 1.0]]),
    Model("words", lambda p, config: [["one", "two"]]),
    Model("nothing", lambda p, config: [[None, None]]),
    Model("empty", lambda p, config: [[]], outputs=(0,)),
    Model("wrong size", lambda p, config: [[1.0, 2.0, 3.0]]),
    Model("slow", slow),
    Model("mute", forward),
    Model("nonsense sizes", forward, inputs=("x",)),
]

if __name__ == "__main__":
    umbridge.serve_models(MODELS, port=int(sys.argv[1]), max_workers=4)
