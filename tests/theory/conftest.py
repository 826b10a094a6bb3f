import pytest

from mse_lab.theory.effort import Effort
from mse_lab.theory.study import six_actions, two_actions


@pytest.fixture(scope="session")
def two():
    return two_actions()


@pytest.fixture(scope="session")
def six():
    return six_actions()


@pytest.fixture(params=["two", "six"])
def limit(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def few():
    return Effort(0, 400, (100, 300))
