"""What a run is worth: the acquisition functions, the search for their maximum, exploring runs and check runs."""

from tbq.acquisition.functions import abs_pvc, interval, peur, plur, puq, pvc
from tbq.evidence.target import Target

__all__ = ["Target", "abs_pvc", "interval", "peur", "plur", "puq", "pvc"]
