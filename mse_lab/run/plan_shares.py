"""What each process will hold of a model that is sharded; no weight is read."""

from pathlib import Path
from typing import NamedTuple

from mse_lab.formatting import byte_size
from mse_lab.policy.outline import load_empty
from mse_lab.probe.schema import Model
from mse_lab.scores.recomputed_layers import decoder_layers


class Shares(NamedTuple):
    """Bytes of the weights of a model that processes hold together."""

    processes: int  # How many hold one model.
    weights_bytes: int  # All weights.
    unit_bytes: int  # The largest unit that is gathered: a layer, or a vocabulary's matrix.

    @property
    def kept_bytes(self) -> int:
        """What each process keeps."""
        return -(-self.weights_bytes // self.processes)

    def values(self) -> dict[str, int]:
        """Give all numbers, for JSON."""
        return {**self._asdict(), "kept_bytes": self.kept_bytes}

    def __str__(self) -> str:
        return (
            f"{byte_size(self.weights_bytes)} of weights; each of {self.processes} "
            f"processes keeps {byte_size(self.kept_bytes)} of them and gathers units of at "
            f"most {byte_size(self.unit_bytes)}, a few at a time; time and further memory "
            "are measured of a whole model only"
        )


def plan_shares(config: Model, root: Path) -> Shares:
    """Count the bytes of a model that is to be sharded, by its configuration."""
    _, model = load_empty(config, root)
    units = [model.get_input_embeddings(), *decoder_layers(model)]
    sizes = [sum(each.nbytes for each in unit.parameters()) for unit in units]
    weights = sum(each.nbytes for each in model.parameters())
    return Shares(config.shard or 1, weights, max(sizes))
