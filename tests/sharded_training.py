"""A training of TRL's that accelerate shards by FSDP2, in one of two processes on CPUs.

It takes a folder and what differs: `callback`, `adapter`, and `killed` or `short`, of
process 1. It leaves the weights of each step there, and the log.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import transformers
from torch import distributed

from mse_lab.policy.sharding import SharedModel
from mse_lab.run import model_peers
from mse_lab.trl import MSECallback
from trl_training import ROWS, right, train

ADAPTER = {"r": 4, "target_modules": ["q_proj", "o_proj"], "task_type": "CAUSAL_LM"}
SHARDED = {
    **{"num_generations": 4, "per_device_train_batch_size": 4, "max_steps": 3},
    **{"fsdp": True, "fsdp_config": {"version": 2, "reshard_after_forward": True}},
}
BUDGET = 96
FAILS_AT = 3  # The call of the reward at which process 1 fails.

calls = []


def shard_on_cpus():
    """Have accelerate shard on CPUs, as it does on GPUs."""
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    begin = AcceleratorState.__init__

    def begin_sharded(self, *words, fsdp_plugin=None, **options):
        begin(self, *words, fsdp_plugin=fsdp_plugin, **options)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.FSDP
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            fsdp_plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = begin_sharded


class KeepWeights(transformers.TrainerCallback):
    """Writes the weights at each step's begin."""

    def on_step_begin(self, args, state, control, model=None, **given):
        """Gather and write them."""
        whole = {name: one.full_tensor() for name, one in model.named_parameters()}
        if state.is_world_process_zero:
            torch.save(whole, Path(args.output_dir) / f"weights-{state.global_step}.pt")

    on_train_end = on_step_begin


def unreliable(completions, answer, **columns):
    """Fail once, in the middle of the first measurement; or be killed, or out of step."""
    calls.append(len(completions))
    if os.environ["RANK"] == "1" and len(calls) == FAILS_AT:
        if "killed" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        if "short" not in sys.argv:
            raise OSError("no network")
        SharedModel.serve = lambda self: None
    return right(completions, answer)


def main(folder, *words):
    """Train; write the log."""
    shard_on_cpus()
    model_peers.LATE = 10
    callbacks = [KeepWeights()]
    if "callback" in words:
        callbacks += [MSECallback(ROWS, unreliable, every=2, budget=BUDGET, share=1.0)]
    adapter = ADAPTER if "adapter" in words else None
    trainer, screen = train(folder, callbacks, adapter=adapter, **SHARDED)
    if distributed.get_rank() == 0:
        log = {"screen": screen, "history": trainer.state.log_history}
        (Path(folder) / "log.json").write_text(json.dumps(log))


def leave(status):
    """End here: gloo's threads may abort an interpreter that is taken apart.

    That is so without the callback, too; see https://github.com/pytorch/pytorch/pull/179291.
    What is still under way in a group is waited for, as an interpreter's end would.
    """
    distributed.destroy_process_group()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except SystemExit as end:
        print(end, file=sys.stderr)
        leave(1)
    leave(0)
