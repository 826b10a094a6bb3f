"""Constant baselines: hand values."""

from toy import make_groups

from mse_lab.estimators.constant import best_constant, oracle, vanilla

GROUP = make_groups([1, 0, 0, 0], value=0.25, best_constant=0.5)


def test_vanilla_keeps_the_rewards():
    assert vanilla(GROUP).tolist() == [[[1, 0, 0, 0]]]


def test_oracle_subtracts_the_value():
    # 1 - 1/4, 0 - 1/4
    assert oracle(GROUP).tolist() == [[[0.75, -0.25, -0.25, -0.25]]]


def test_best_constant_subtracts_its_own():
    # 1 - 1/2, 0 - 1/2
    assert best_constant(GROUP).tolist() == [[[0.5, -0.5, -0.5, -0.5]]]
