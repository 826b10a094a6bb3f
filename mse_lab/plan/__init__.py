"""Plan: what a run will take, before anything is spent on it.

A short trial measures a few prompts with the code of the run (`trial.py`), counts its
operations and takes its time stage by stage (`watch.py`), and is scaled to the run's pools
(`work.py`, `repeats.py`, `costs.py`, `finish.py`). Its scores tell how wide the intervals
will be (`widths.py`).
"""

from mse_lab.plan.run import plan_probe
from mse_lab.plan.words import plan_json, plan_text

__all__ = ["plan_json", "plan_probe", "plan_text"]
