"""Draw a probe's completions by vLLM, into a file that `completions:` reads.

    python -m probes.making.vllm_completions probes/qwen/instruct.yaml drawn.jsonl
    mse-lab run qwen/instruct --set completions=drawn.jsonl

It wants the policy itself: temperature and length of the probe, no truncation of the tail,
no penalties. vLLM takes its end tokens from generation_config and tokenizer, as the policy
does, and gives them with the tokens. Written by the documentation of vLLM 0.20; it has not
been run.
"""

import json
import sys
from pathlib import Path

from vllm import LLM, SamplingParams

from mse_lab.config.probe_files import load_probe
from mse_lab.data.prompts import load_prompts


def main(probe_file: str, out: str) -> None:
    """Draw both pools of every prompt, a line for each completion."""
    probe = load_probe(Path(probe_file))
    model, law = probe.model, probe.sampling
    prompts = load_prompts(probe.prompts, Path.cwd())
    # The default is the log-probability from before the temperature.
    options = {"logprobs_mode": "processed_logprobs", "seed": probe.seed}
    llm = LLM(model.path, revision=model.revision, dtype=model.dtype, **options)
    wanted = SamplingParams(
        n=probe.pool.reference + probe.pool.replicate,
        temperature=law.temperature,
        max_tokens=law.max_new_tokens,
        top_p=1.0,
        top_k=-1,
        stop=law.stop or None,
        logprobs=0,  # That of the token that was drawn, and of no others.
    )
    if probe.prompts.chat:
        outputs = llm.chat([prompt.turns for prompt in prompts], wanted)
    else:
        outputs = llm.generate([prompt.text for prompt in prompts], wanted)
    with Path(out).open("w") as file:
        for prompt, output in zip(prompts, outputs, strict=True):
            for drawn in output.outputs:
                tokens = list(drawn.token_ids)
                pairs = zip(tokens, drawn.logprobs, strict=True)
                engine = [at[token].logprob for token, at in pairs]
                line = {"prompt": prompt.id, "tokens": tokens, "engine_log_probs": engine}
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
