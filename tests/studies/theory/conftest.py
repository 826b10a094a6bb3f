import pytest

from mse_lab.studies.theory.effort import Effort
from mse_lab.studies.theory.study import (
    crossed_noise,
    one_direction,
    six_actions,
    two_actions,
    unseen_word,
)


@pytest.fixture(scope="session")
def two():
    return two_actions()


@pytest.fixture(scope="session")
def six():
    return six_actions()


@pytest.fixture(scope="session")
def one():
    return one_direction()


@pytest.fixture(scope="session")
def cross():
    return crossed_noise()


@pytest.fixture(scope="session")
def word():
    return unseen_word()


@pytest.fixture(params=["two", "six"])
def limit(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def few():
    return Effort(0, 400, (100, 300))
