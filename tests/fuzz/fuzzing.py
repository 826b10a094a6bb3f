"""Two sizes of fuzzing: a few hundred cases in the suite, thousands by `make fuzz`.

Put `@CASES` below `@given(...)`. The cases are the same on every machine, so that a failure
can be repeated; `FUZZ_CASES` sets how many a test tries.
"""

import os

from hypothesis import HealthCheck, settings

CASES = settings(
    max_examples=int(os.environ.get("FUZZ_CASES", "50")),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
