"""Integrals under a belief: moments of the evidence, tempering, populations and their moves, the final estimate."""
