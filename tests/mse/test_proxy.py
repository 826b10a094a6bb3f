"""How well the logits norm stands for the score's: against pandas, and by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mse_lab.mse.moments import measure_proxy
from simulated import make_pools


@pytest.fixture(scope="module")
def pools():
    return make_pools(6, 16, 3, 8)


def test_the_correlations_are_those_of_pandas(pools):
    norms2_PN = pools.gram_PKGG.diagonal(axis1=-2, axis2=-1).reshape(6, 24)
    frame = pd.DataFrame(
        {"logits": pools.logit_norms2_PN.ravel(), "score": norms2_PN.ravel()}
    )
    prompts = np.repeat(np.arange(6), 24)
    centred = frame - frame.groupby(prompts).transform("mean")
    found = measure_proxy(pools)
    assert found.overall == pytest.approx(frame.corr().iloc[0, 1], rel=1e-12)
    assert found.within == pytest.approx(centred.corr().iloc[0, 1], rel=1e-12)


def test_a_proxy_of_the_prompt_alone_tells_nothing_within_it(pools):
    norms2_P = pools.gram_PKGG.diagonal(axis1=-2, axis2=-1).mean((1, 2))
    of_prompt = replace(pools, logit_norms2_PN=np.repeat(norms2_P[:, None], 24, 1))
    found = measure_proxy(of_prompt)
    assert abs(found.within) < 1e-6 < found.overall


def test_norms_that_no_pass_recorded_have_none(pools):
    unknown = pools.logit_norms2_PN.copy()
    unknown[0, 0] = np.nan
    assert measure_proxy(replace(pools, logit_norms2_PN=unknown)) is None
