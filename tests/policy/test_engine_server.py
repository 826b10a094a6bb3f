"""A server that draws: asked in its own form, patiently, and not believed blindly."""

import threading
from threading import Timer

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.policy import engine_server
from mse_lab.policy.engine_server import EngineServer, Job
from mse_lab.policy.log_probabilities import sum_over_tokens, token_log_probs
from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import load_probe
from served_engine import SPOILT, ServedEngine

JOB = Job("p0", "reference", range(40), [1, 2, 3])
OTHER = JOB._replace(pool="replicate")


@pytest.fixture
def policy(write_probe, tmp_path):
    return load_policy(load_probe(write_probe(sampling={"temperature": 0.8})), tmp_path)


@pytest.fixture
def find(write_probe):
    """Return a function that finds the server of a small probe."""

    def find(engine, **changes):
        sampling = {"temperature": 0.8, "max_new_tokens": 3, "server": f"{engine.url}/"}
        return EngineServer(load_probe(write_probe(sampling=sampling, **changes)))

    return find


@pytest.fixture
def quick(monkeypatch):
    """Wait for no more than some tenths of a second."""
    monkeypatch.setattr(engine_server, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(engine_server, "PATIENCE", 0.2)


@pytest.mark.parametrize("form", ["vllm", "sglang"])
def test_completions_come_in_order_with_their_probabilities(form, policy, find):
    with ServedEngine(policy, form) as engine:
        server = find(engine)
        drawn, other = server.draw(policy, JOB), server.draw(policy, OTHER)
        middle = server.draw(policy, JOB._replace(numbers=range(16, 32)))
    assert len({*drawn.keys}) > 10
    assert set(drawn.ended_N) == {True, False}
    assert drawn[16:32].keys == middle.keys
    assert drawn.keys != other.keys
    own_N = token_log_probs(policy, JOB.tokens, drawn).double()
    own_N = sum_over_tokens(own_N, drawn).numpy()
    np.testing.assert_allclose(drawn.log_probs_N, own_N, atol=1e-5)


WORDS = {
    "ignores n": "completions: 1 where 16 are asked for",
    "text without ids": "completions without token ids",
    "no log-probabilities": "completions without log-probabilities",
    "other numbers": "engine_log_probs: 4 entries for 3 tokens",
    "longer than asked": "4 tokens where sampling.max_new_tokens = 3",
    "another form": "its answer has another form",
    "not JSON": r"no JSON \(Expecting value",
    400: "it answers 400 Bad Request: .*a reason",
}


@pytest.mark.parametrize("fault", WORDS, ids=str)
def test_a_wrong_answer_is_one_line(fault, policy, find):
    assert {*SPOILT} < {*WORDS}
    with ServedEngine(policy) as engine:
        server = find(engine)
        engine.faults = [fault] * 3
        with pytest.raises(InputError, match=rf"sampling.server = http.*{WORDS[fault]}"):
            server.draw(policy, JOB)


def test_a_busy_server_is_asked_again(policy, find, quick, capsys):
    with ServedEngine(policy) as engine:
        server = find(engine)
        whole = server.draw(policy, JOB)
        engine.faults = [429, 500, "hang up", 503, 502, 504]
        again = server.draw(policy, JOB)
        assert len(engine.asked) == 3 + 3 + 6
    np.testing.assert_array_equal(whole.tokens_NT, again.tokens_NT)
    assert "trying again for" in capsys.readouterr().err


def test_what_is_in_flight_at_a_refusal_is_not_asked_again(policy, find, quick, capsys):
    with ServedEngine(policy) as engine:
        server, before = find(engine), {*threading.enumerate()}
        engine.faults = ["late", "late", 400]
        with pytest.raises(InputError, match="answers 400"):
            server.draw(policy, JOB)
        engine.released.set()
        for thread in {*threading.enumerate()} - before:
            thread.join(10)
        assert len(engine.asked) == 3
    assert "trying again" not in capsys.readouterr().err


def test_a_server_that_dies_and_returns_is_waited_for(policy, find, monkeypatch):
    monkeypatch.setattr(engine_server, "LONGEST_WAIT", 0.1)
    with ServedEngine(policy) as engine:
        server = find(engine)
        whole = server.draw(policy, JOB)
        engine.stop()
        Timer(0.5, engine.start).start()
        again = server.draw(policy, JOB)
    np.testing.assert_array_equal(whole.tokens_NT, again.tokens_NT)


def test_one_that_stays_away_is_named_with_the_remedy(policy, find, quick):
    with ServedEngine(policy) as engine:
        server = find(engine)
    with pytest.raises(InputError, match=r"no answer \(.*refused.*same command then goes"):
        server.draw(policy, JOB)
    with pytest.raises(InputError, match=r"refused.*start it, or correct the address"):
        find(engine)


def test_one_that_does_not_answer_in_time_is_given_up(policy, find, quick, monkeypatch):
    with ServedEngine(policy) as engine:
        server = find(engine)
        monkeypatch.setattr(server, "_seconds", 0.1)
        with engine._lock, pytest.raises(InputError, match=r"no answer \(.*timed out"):
            server.draw(policy, JOB)


def test_of_several_models_the_probes_own_is_asked(policy, find, checkpoint):
    with ServedEngine(policy, served=(str(checkpoint), "other")) as engine:
        assert len(find(engine).draw(policy, OTHER._replace(numbers=[5]))) == 1
        assert engine.asked[0]["model"] == str(checkpoint)
        engine.served = ()
        with pytest.raises(InputError, match=r"/v1/models lists no model"):
            find(engine)
