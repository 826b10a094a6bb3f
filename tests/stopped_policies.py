"""Policies with stop strings, small enough to enumerate."""

from dataclasses import replace

import transformers
from tokenizers import Tokenizer, decoders, models

from models import random_policy
from mse_lab.policy.stop_strings import StopStrings

# `##` spans two tokens, and begins inside `a#` or at its start in `##b` and `#`.
WORDS = ("<s>", "<end>", "a#", "##b", "#", "c")


def stopped_policy(*stops, architecture="qwen2", words=WORDS):
    """Make a random policy of `WORDS` that ends at `<end>` and at these texts."""
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}))
    tokenizer.decoder = decoders.Fuse()
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="<end>"
    )
    policy = random_policy(architecture, vocabulary=len(words), ends=(1,))
    return replace(policy, tokenizer=wrapped, stops=StopStrings.of(stops, wrapped))
