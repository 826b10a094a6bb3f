"""Stop strings: texts that end a completion, as the `stop` of an engine does.

A completion ends with the first token at which its decoded text contains one of them. That
token belongs to it: the end is a function of the tokens so far, so log pi and the score
are sums over all tokens up to it. The text for the reward stops before the string.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mse_lab.errors import InputError, shown


@dataclass(frozen=True)
class StopStrings:
    """The stop strings of a policy, and how its tokens are decoded."""

    texts: tuple[str, ...]  # None of them empty.
    tokenizer: Any  # The policy's.
    special: frozenset[int]  # Tokens that decoding leaves out.
    # Tokens at a completion's end that can hold a string: each holds a byte of it or more,
    # and the first ones may lose a space, or be parts of a character.
    reach: int

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Any) -> "StopStrings | None":
        """Prepare stop strings, None if there are none; refuse one with a special token."""
        if not texts:
            return None
        for text in texts:
            if any(token in text for token in tokenizer.all_special_tokens):
                raise InputError(
                    f"sampling.stop = {shown(text)}: a special token, which is not part of "
                    "a completion's text; leave it out: end tokens end a completion anyway"
                )
        reach = max(len(text.encode()) for text in texts) + 4
        return cls(tuple(texts), tokenizer, frozenset(tokenizer.all_special_ids), reach)

    def end(self, tokens: Sequence[int]) -> bool:
        """Whether the last of these tokens completes a stop string."""
        kept: list[int] = []
        for token in reversed(tokens):
            if token not in self.special:
                kept.append(token)
            if len(kept) == self.reach:
                break
        tail = str(self.tokenizer.decode(kept[::-1], skip_special_tokens=True))
        return any(text in tail for text in self.texts)

    def cut(self, text: str) -> str:
        """Cut a completion's text before the first stop string in it."""
        places = (text.find(stop) for stop in self.texts)
        return text[: min((place for place in places if place >= 0), default=len(text))]
