"""What processes will hold of a model, counted without its weights."""

from mse_lab.probe.schema import Model
from mse_lab.run.plan_shares import Shares, plan_shares


def test_shares_of_a_checkpoint(checkpoint, tmp_path):
    """Four tokens of 8 numbers, tied; a layer's seven matrices, its norms and biases."""
    model = Model(path=str(checkpoint), dtype="float64", shard=3)
    shares = plan_shares(model, tmp_path)
    heads, keys = 8 * 8 + 8, 2 * (4 * 8 + 4)
    layer = heads + keys + 8 * 8 + 3 * 8 * 8 + 2 * 8
    assert shares == Shares(3, 8 * (2 * layer + 4 * 8 + 8), 8 * layer)
    assert shares.values()["kept_bytes"] == -(-shares.weights_bytes // 3)


def test_the_screen_says_what_each_process_keeps(tmp_path):
    text = str(Shares(4, 16 * 10**9, 10**9))
    assert "each of 4 processes keeps 4 GB of them" in text
    assert "units of at most 1 GB" in text
