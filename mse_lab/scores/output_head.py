"""The output head in slices of the vocabulary: log-probabilities without all the logits.

With hidden states h_t, the head's matrix A (V, H) and whatever the model does to single
logits after it (soft-capping, scaling; phi), log pi(y_t) = l_t[y_t] - log sum_v exp l_t[v],
l_t[v] = phi(<A_v, h_t>) / temperature. The sum and the gradients need the logits of a slice
of the vocabulary at a time. The head's own score is sum_t d_t h_t', whose rows d_t are
computed again, slice by slice, when they are reduced (`LogitGradients`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from mse_lab.policy.policy import Policy
from mse_lab.scores.factors import Dense, Factor, OuterProducts, slice_step
from mse_lab.scores.recorder import Recorder
from mse_lab.scores.replaced_forward import replaced_forward


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class _Given(BaseModelOutputWithPast):
    """A body's output with the last hidden states, None for all else a body may give."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


class SlicedHead:
    """A policy's output head, from the last hidden states to log-probabilities.

    Attributes:
        module: The linear map to the logits.
    """

    def __init__(self, policy: Policy) -> None:
        self._model = policy.model
        self._temperature = policy.temperature
        self.module: nn.Linear = self._model.get_output_embeddings()

    @contextmanager
    def capturing(self) -> Iterator[list[Tensor]]:
        """Collect the hidden states that reach the head, which computes nothing."""
        hidden: list[Tensor] = []

        def keep(states: Tensor) -> Tensor:
            hidden.append(states.to(self.module.weight.device))
            return states[..., :1]

        with replaced_forward(self.module, keep):
            yield hidden

    def _after(self, logits: Tensor) -> Tensor:
        """Apply what the model does to single logits after the head: its own code, run."""

        def given(*_: Any, **__: Any) -> _Given:
            return _Given(last_hidden_state=logits)

        token = torch.zeros((1, 1), dtype=torch.long, device=self.module.weight.device)
        with (
            replaced_forward(self._model.base_model, given),
            replaced_forward(self.module, lambda states: states),
        ):
            return self._model(token, use_cache=False).logits

    def logits(self, hidden_NTH: Tensor, part: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part of the vocabulary's logits.

        Returns:
            A h, in the model's precision, and phi(A h) / temperature, in float32 or better.
        """
        bias = None if self.module.bias is None else self.module.bias[part]
        raw = nn.functional.linear(hidden_NTH, self.module.weight[part], bias)
        raw = raw.detach().requires_grad_(torch.is_grad_enabled())
        return raw, _at_least_float32(self._after(raw)) / self._temperature

    def parts(self, hidden_NTH: Tensor) -> Iterator[slice]:
        """Cut the vocabulary so that a slice of the logits is small."""
        vocabulary = len(self.module.weight)
        step = slice_step(4 * hidden_NTH[..., 0].numel())
        for start in range(0, vocabulary, step):
            yield slice(start, min(start + step, vocabulary))

    def log_probabilities(
        self, hidden_NTH: Tensor, tokens_NT: Tensor, recorder: Recorder
    ) -> Tensor:
        """Give log pi of each token (N, T), recording the head's own scores.

        Args:
            hidden_NTH: The states that reach the head.
            tokens_NT: The token after each.
            recorder: Meets the head's factors in the backward pass.
        """
        own = recorder.own_parameters(self.module)
        for name in own.values():
            recorder.expect(name)
        return _token_log_probs(self, own, recorder, hidden_NTH, tokens_NT)


class LogitGradients:
    """Gradients (N, T, V) in the head's output, computed for the rows asked for."""

    def __init__(
        self, head: SlicedHead, hidden: Tensor, tokens: Tensor, total: Tensor, scale: Tensor
    ) -> None:
        self._head, self._hidden, self._tokens = head, hidden, tokens
        self._total, self._scale = total, scale
        vocabulary = len(head.module.weight)
        self._numbers = torch.arange(vocabulary, device=tokens.device)
        self.shape = torch.Size([*tokens.shape, vocabulary])

    def __getitem__(self, index: tuple[Any, slice | Tensor]) -> Tensor:
        _, part = index
        with torch.enable_grad():
            raw, scaled = self._head.logits(self._hidden, part)
        own = self._tokens[..., None] == self._numbers[part]
        minus = torch.exp(scaled.detach() - self._total[..., None]).sub_(own.to(scaled))
        return torch.autograd.grad(scaled, raw, minus * -self._scale[..., None])[0]


class _TokenLogProbs(torch.autograd.Function):
    """log pi of tokens from hidden states, a slice of the vocabulary at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        head: SlicedHead,
        own: dict[str, str],
        recorder: Recorder,
        hidden: Tensor,
        tokens: Tensor,
    ) -> Tensor:
        found = []
        for part in head.parts(hidden):
            _, scaled = head.logits(hidden, part)
            place = tokens - part.start
            inside = (place >= 0) & (place < scaled.shape[-1])
            own_logit = scaled.gather(-1, (place * inside)[..., None])[..., 0]
            found.append((torch.where(inside, own_logit, 0), scaled.logsumexp(-1)))
        chosen = torch.stack([logit for logit, _ in found]).sum(0)
        total = torch.stack([sums for _, sums in found]).logsumexp(0)
        ctx.head, ctx.own, ctx.recorder = head, own, recorder
        ctx.save_for_backward(hidden, tokens, total)
        return chosen - total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, Tensor, None]:
        hidden, tokens, total = ctx.saved_tensors
        rows = LogitGradients(ctx.head, hidden, tokens, total, gradients[0])
        weight = ctx.head.module.weight
        pulled = _at_least_float32(torch.zeros_like(hidden))
        bias = []
        for part in ctx.head.parts(hidden):
            d = rows[..., part]
            pulled += d @ weight[part]
            if "bias" in ctx.own:
                bias.append(d.sum(1))
        factors: dict[str, Factor] = {"weight": OuterProducts(rows, hidden)}
        if bias:
            factors["bias"] = Dense(torch.cat(bias, 1))
        for local, name in ctx.own.items():
            ctx.recorder.meet(name, factors[local])
        return None, None, None, pulled.to(hidden), None


_token_log_probs: Callable[..., Tensor] = _TokenLogProbs.apply
