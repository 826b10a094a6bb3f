"""Epochs in words."""

from mse_lab.answers.epochs import Epochs, InEpochs
from mse_lab.mse.intervals import Estimate
from mse_lab.report.epochs_report import epochs_sentence, epochs_table

ROWS = (
    InEpochs(1.0, Estimate(4.6, 4.4, 4.8), 4),
    InEpochs(0.9, Estimate(13.0, 12.0, 14.0), 8),
    InEpochs(0.0, Estimate(40.0, 40.0, 40.0), 32),
)
EPOCHS = Epochs(7473, 10.0, 40.0, ROWS)


def test_the_ends_stand_below_each_other():
    lines = epochs_table(EPOCHS, 0.95).splitlines()
    assert "(95% interval)" in lines[0]
    assert [line.split()[-1] for line in lines[1:]] == ["4", "8", "32"]
    assert "each step reaches the maximum" in lines[1]


def test_it_says_what_is_compared():
    assert "7,473 prompts, 40 completions of each" in epochs_sentence(EPOCHS)
