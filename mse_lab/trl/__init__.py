"""Beside TRL's trainers: a callback that measures, and a baseline that fits.

from mse_lab.trl import MSECallback, with_baseline
"""

from mse_lab.trl.baseline import with_baseline
from mse_lab.trl.callback import MSECallback

__all__ = ["MSECallback", "with_baseline"]
