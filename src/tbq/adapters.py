"""Simulators outside Python, as functions of theta: a program run per evaluation, and a model behind a server."""

from tbq.simulate.command import CommandModel
from tbq.simulate.licences import Licences
from tbq.simulate.umbridge import UmBridgeModel

__all__ = ["CommandModel", "Licences", "UmBridgeModel"]
