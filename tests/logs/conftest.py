"""Logs by the hundred: the model's interval from few draws."""

import pytest

from mse_lab.logs import forecast


@pytest.fixture(autouse=True)
def few_draws(request, monkeypatch):
    if "all_draws" not in request.fixturenames:
        monkeypatch.setattr(forecast, "BOOTSTRAP_DRAWS", 3)


@pytest.fixture
def all_draws():
    """Ask for as many draws as users have."""
