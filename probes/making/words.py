"""The small checkpoints' tokenizer: Qwen2's, with one token a word, a sign or a digit.

Qwen2's rules cut a text into words with the space before them, single digits, signs,
and the space before a digit; byte pair encoding then joins the bytes of a piece. The
merges here join the words and signs of the family's templates and nothing else. A line
break stays a token of its own, so a prompt and its completion never share a token.
All 256 bytes are in the vocabulary: any text survives the round trip.
"""

import re

from tokenizers.pre_tokenizers import ByteLevel
from transformers import Qwen2Tokenizer

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"

_ROLES = "\nsystem\nuser\nassistant"
_JOINED = re.compile(r" ?[A-Za-z]+| [-+*/=(.,]")
_CHAT = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _merges(words: list[str]) -> list[tuple[str, str]]:
    """Return merges that build each word from the left, one letter at a time."""
    pairs = ((word[:end], word[end]) for word in words for end in range(1, len(word)))
    return list(dict.fromkeys(pairs))


def build_tokenizer(text: str) -> Qwen2Tokenizer:
    """Build the tokenizer from the words and signs of the family's templates.

    Args:
        text: All of them, with every sign that follows a space.

    Returns:
        A fast tokenizer; ``<|endoftext|>`` ends a document and pads, ``<|im_end|>``
        ends a turn of the chat template.
    """
    space = "Ġ"  # how byte-level vocabularies write a space
    pieces = {word.replace(" ", space) for word in _JOINED.findall(text + _ROLES)}
    words = sorted(pieces, reverse=True)  # a word with its space before the bare word
    merges = _merges(words)
    tokens = [END_OF_TEXT, TURN_START, TURN_END, *sorted(ByteLevel.alphabet())]
    tokens += [left + right for left, right in merges]
    return Qwen2Tokenizer(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=merges,
        extra_special_tokens=[TURN_START, TURN_END],
        chat_template=_CHAT,
        model_max_length=256,
    )


def check_round_trip(tokenizer: Qwen2Tokenizer, text: str) -> None:
    """Raise if decoding the tokens of `text` does not give `text` back.

    Raises:
        ValueError: The round trip changed the text.
    """
    back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
    if back != text:
        raise ValueError(f"the tokenizer turns {text!r} into {back!r}")
