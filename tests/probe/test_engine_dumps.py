"""Engines' answers, in the forms of their documentation, and what a line has of each."""

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.engine_dumps import answers_in, lines_of


def place(**by_token):
    """One place of vLLM's RequestOutput, whose Logprob is a mapping in JSON."""
    return {
        token.strip("t"): {"logprob": value, "rank": 1, "decoded_token": "?"}
        for token, value in by_token.items()
    }


VLLM = {
    "request_id": "0",
    "prompt": "1 + 1 =",
    "prompt_token_ids": [3, 4, 3],
    "prompt_logprobs": None,
    "outputs": [
        {
            **{"index": 0, "text": " 2", "token_ids": [7, 9], "cumulative_logprob": -0.75},
            **{"logprobs": [place(t7=-0.5, t8=-0.1), place(t9=-0.25)]},
            **{"finish_reason": "stop", "stop_reason": None},
        },
        {
            **{"index": 1, "text": " 3 3", "token_ids": [8, 8], "cumulative_logprob": -3.0},
            **{"logprobs": None, "finish_reason": "length", "stop_reason": None},
        },
    ],
    "finished": True,
}
COMPLETIONS = {
    **{"id": "cmpl-1", "object": "text_completion", "model": "m", "prompt_id": "a"},
    "choices": [
        {
            **{"index": 0, "text": " 2", "finish_reason": "stop", "token_ids": [7, 9]},
            "logprobs": {"tokens": [" 2", ""], "token_logprobs": [-0.5, -0.25]},
        }
    ],
}
# A line of a batch's output, of texts alone.
CHAT = {
    **{"id": "batch_req_1", "custom_id": "a", "error": None},
    "response": {
        "status_code": 200,
        "body": {
            "object": "chat.completion",
            "choices": [
                {
                    **{"index": 0, "message": {"role": "assistant", "content": " 2"}},
                    "logprobs": {"content": [{"token": " 2", "logprob": -0.5}]},
                    "finish_reason": "stop",
                }
            ],
        },
    },
}
SGLANG = {
    **{"prompt_id": "a", "text": " 2", "output_ids": [7, 9]},
    "meta_info": {
        **{"id": "1", "finish_reason": {"type": "length", "length": 2}},
        "output_token_logprobs": [[-0.5, 7, " 2"], [-0.25, 9, None]],
    },
}
LINE = {"prompt": "a", "text": " 2", "tokens": [7, 9], "truncated": False,
        "engine_log_probs": [-0.5, -0.25]}  # fmt: skip
FORMS = {
    "vllm": (
        VLLM,
        [
            LINE | {"prompt": "1 + 1 ="},
            {
                **{"prompt": "1 + 1 =", "text": " 3 3", "tokens": [8, 8]},
                **{"truncated": True, "log_probs": -3.0},
            },
        ],
    ),
    "completions": (COMPLETIONS, [LINE]),
    "chat": (CHAT, [{"prompt": "a", "text": " 2", "truncated": False}]),
    "sglang": (SGLANG, [LINE | {"truncated": True}]),
    "ids alone": (
        {"prompt": None, "prompt_token_ids": [3], "outputs": [{"token_ids": [7]}]},
        [{"prompt": [3], "tokens": [7]}],
    ),
    "of log-probabilities": (
        SGLANG | {"output_ids": None, "reward": 1},
        [LINE | {"truncated": True, "reward": 1}],
    ),
}


@pytest.mark.parametrize(("record", "lines"), FORMS.values(), ids=FORMS)
def test_a_line_for_each_completion(record, lines):
    assert lines_of(record, "line 1") == lines


def test_rewards_that_are_added():
    given = [line.get("reward") for line in lines_of(VLLM | {"reward": [1, 0]}, "line 1")]
    assert given == [1, 0]
    own = {"choices": [choice | {"reward": 0.5} for choice in COMPLETIONS["choices"]]}
    assert lines_of(COMPLETIONS | own, "line 1") == [LINE | {"reward": 0.5}]


@pytest.mark.parametrize(
    "message", [{"reasoning_content": "1 and 1 is"}, {"tool_calls": [{"id": "x"}]}]
)
def test_a_part_of_a_completion_is_not_its_text(message):
    choice = CHAT["response"]["body"]["choices"][0]
    choice = choice | {"message": choice["message"] | message}
    assert lines_of({"prompt_id": "a", "choices": [choice]}, "line 1") == [
        {"prompt": "a", "truncated": False}
    ]


OTHERS = {
    "multiple choice": {"question": "?", "choices": [{"label": "A", "text": "2"}]},
    "texts": {"prompt": "a", "outputs": ["2", "3"], "reward": 1},
    "failed": {"custom_id": "a", "response": {"body": None}, "error": {"code": "x"}},
    "own": {"prompt_id": "a", "response": "2", "reward": 1},
    "none": {"prompt_id": "a", "outputs": []},
    "meta": {"prompt": "a", "meta_info": {}},
}


@pytest.mark.parametrize("record", OTHERS.values(), ids=OTHERS)
def test_other_records_are_no_answers(record):
    assert not answers_in(record)
    assert lines_of(record, "line 1") == []


def spoilt(**changes):
    return COMPLETIONS | {"choices": [COMPLETIONS["choices"][0] | changes]}


BAD = {
    "no prompt": (COMPLETIONS | {"prompt_id": None}, "without its prompt; add prompt_id"),
    "rewards": (VLLM | {"rewards": [1]}, "1 rewards of 2 completions"),
    "one for two": (VLLM | {"reward": 1}, "1 rewards of 2 completions"),
    "few": (spoilt(logprobs=[{"7": -1.0}]), "have another form"),
    "other tokens": (spoilt(logprobs=[{"7": -1.0}, {"8": -1.0}]), "have another form"),
    "message": (spoilt(message="2"), "have another form"),
    "reason": (SGLANG | {"meta_info": {"finish_reason": "stop"}}, "have another form"),
    "pairs": (SGLANG | {"meta_info": {"output_token_logprobs": [-1.0]}}, "another form"),
}


@pytest.mark.parametrize(("record", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_one_line(record, words):
    with pytest.raises(InputError, match=words) as error:
        lines_of(record, "line 1")
    assert str(error.value).startswith("line 1: ")
    assert "\n" not in str(error.value)
