"""Draws by name: the luck of one thing does not depend on that of others before."""

from __future__ import annotations

from zlib import crc32

import numpy as np


class RandomStreams:
    """All draws of a simulation come from its seed, by the names of their purposes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *names: object) -> np.random.Generator:
        """The draws that are called so; the same ones each time."""
        return np.random.default_rng([self.seed, crc32("/".join(map(str, names)).encode())])


def around(generator: np.random.Generator, mean: float, spread: float) -> float:
    """A positive number with this mean; its logarithm has the deviation `spread`."""
    return mean * float(np.exp(spread * generator.standard_normal() - spread * spread / 2))
