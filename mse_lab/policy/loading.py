"""Loading other people's files: every error of a library becomes one line.

transformers, tokenizers, PEFT and torch raise errors of any kind on a damaged checkpoint.
The line names the folder, what was loaded, and the library's message.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mse_lab.errors import InputError, ProcessLost, in_short
from mse_lab.policy.location import Location

# Pattern in a library's message -> reason and remedy.
_CAUSES = {
    "out of memory|allocate memory|MemoryError": (
        "does not fit into memory",
        "use model.dtype=bfloat16, or several GPUs with model.device_map=auto",
    ),
    "trust_remote_code": (
        "it brings code of its own, which is not run",
        "use a checkpoint whose architecture transformers has",
    ),
    "sentencepiece|tiktoken": (
        "its tokenizer has to be converted",
        "install the converters: pip install sentencepiece tiktoken",
    ),
    # torch's message is a page that explains how to run what the file holds.
    "UnpicklingError": (
        "a file of weights is damaged, or holds more than weights",
        "give the weights as .safetensors",
    ),
}


@contextmanager
def loading(location: Location, what: str) -> Iterator[None]:
    """Turn an error inside the block into one line, such as "config.json cannot be loaded".

    Only calls of other libraries belong inside: an error of ours would pass for damage.
    """
    try:
        yield
    except (InputError, ProcessLost):
        raise
    except BaseException as error:
        # A panic of tokenizers is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _failure(location, error, what) from None


def _failure(location: Location, error: BaseException, what: str) -> InputError:
    words = f"{type(error).__name__}: {error}"
    for pattern, (reason, remedy) in _CAUSES.items():
        if re.search(pattern, words):
            return location.refuse(reason, remedy)
    if isinstance(error, ImportError):
        return location.refuse(f"cannot be loaded: {in_short(error)}", "install it")
    return location.incomplete(f"{what} cannot be loaded: {in_short(error)}")
