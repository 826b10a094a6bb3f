"""The output head in slices of the vocabulary: log-probabilities without all the logits.

With hidden states h_t, the head's matrix A (V, H) and whatever the model does to single
logits after it (soft-capping, scaling; phi), log pi(y_t) = l_t[y_t] - log sum_v exp l_t[v],
l_t[v] = phi(<A_v, h_t>) / temperature. The sum, that of squared probabilities and the
gradients need the logits of a slice of the vocabulary at a time. The head's own score is
sum_t d_t h_t', whose rows d_t are computed again, slice by slice, when they are reduced
(`_LogitGradients`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import (
    TokenSums,
    logit_norms2,
    padded_tokens,
    sequences,
)
from mse_lab.policy.policy import Policy
from mse_lab.scores.factors import Dense, Factor, OuterProducts, slices
from mse_lab.scores.module_hooks import replaced_forward
from mse_lab.scores.recorder import Recorder
from mse_lab.scores.scoring_plan import direct_parameters


class _Given(BaseModelOutputWithPast):
    """A body's output with the last hidden states, None for all else a body may give."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


class SlicedHead:
    """A policy's output head, from the last hidden states to log-probabilities.

    `module` is the linear map to the logits, `names` are its parameters that count.
    """

    def __init__(self, policy: Policy) -> None:
        self.module: nn.Linear = policy.model.get_output_embeddings()
        self.names = direct_parameters(policy, self.module)
        self._policy, self._model = policy, policy.model

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
        given = _Given(last_hidden_state=logits)
        token = torch.zeros((1, 1), dtype=torch.long, device=logits.device)
        with (
            replaced_forward(self._model.base_model, lambda *_, **__: given),
            replaced_forward(self.module, lambda states: states),
        ):
            return self._model(token, use_cache=False).logits

    def logits(self, hidden_NTH: Tensor, part: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part of the vocabulary's A h, in the model's precision, and logits.

        These are phi(A h) / temperature, in float32 or better.
        """
        bias = None if self.module.bias is None else self.module.bias[part]
        raw = nn.functional.linear(hidden_NTH, self.module.weight[part], bias)
        raw = raw.detach().requires_grad_(torch.is_grad_enabled())
        return raw, self._policy.scaled(self._after(raw))

    def parts(self, hidden_NTH: Tensor) -> Iterator[slice]:
        """Cut the vocabulary so that a slice of the logits is small."""
        return slices(len(self.module.weight), 4 * hidden_NTH[..., 0].numel())

    def sequence_sums(
        self, prompt: list[int], completions: Completions, padding: int, recorder: Recorder
    ) -> TokenSums:
        """Compute log pi(Y_i | x) and logits norms as `policy.log_probabilities` does.

        The recorder takes the head's factors in the backward pass.
        """
        tokens = padded_tokens(self._policy, completions, padding)
        inputs = sequences(prompt, tokens)
        with self.capturing() as hidden:
            self._model(inputs, use_cache=False, logits_to_keep=tokens.shape[1])
        for name in self.names.values():
            recorder.expect(name)
        tokens = tokens.to(hidden[0].device)
        by_token = _sliced_log_probs(self, recorder, hidden[0], tokens)
        return TokenSums.of(by_token, completions)


class _LogitGradients:
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
        chosen = self._tokens[..., None] == self._numbers[part]
        minus = torch.exp(scaled.detach() - self._total[..., None]).sub_(chosen.to(scaled))
        return torch.autograd.grad(scaled, raw, minus * -self._scale[..., None])[0]


class _SlicedTokenLogProbs(torch.autograd.Function):
    """log pi of tokens and logits norms from hidden states, by slices of the vocabulary."""

    @staticmethod
    def forward(
        ctx: Any, head: SlicedHead, recorder: Recorder, hidden: Tensor, tokens: Tensor
    ) -> tuple[Tensor, Tensor]:
        chosen, totals, norms = torch.zeros(()), [], []
        for part in head.parts(hidden):
            _, scaled = head.logits(hidden, part)
            place = tokens - part.start
            inside = (place >= 0) & (place < scaled.shape[-1])
            chosen_logit = scaled.gather(-1, (place * inside)[..., None])[..., 0]
            chosen = torch.where(inside, chosen_logit, chosen.to(chosen_logit))
            # As torch.logsumexp does it; the norm is of the same terms.
            peak = scaled.amax(-1)
            peak = peak.masked_fill(peak.isinf(), 0)
            terms = (scaled - peak[..., None]).exp_()
            totals.append(terms.sum(-1).log_().add_(peak))
            norms.append(torch.linalg.vector_norm(terms, dim=-1).log_().add_(peak))
        total = torch.stack(totals).logsumexp(0)
        ctx.head, ctx.recorder = head, recorder
        ctx.save_for_backward(hidden, tokens, total)
        log_probs = chosen - total
        norm_of_probs = (torch.stack(norms) - total).exp().norm(dim=0)
        norms2 = logit_norms2(log_probs, norm_of_probs)
        ctx.mark_non_differentiable(norms2)
        return log_probs, norms2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, None]:
        hidden, tokens, total = ctx.saved_tensors
        rows = _LogitGradients(ctx.head, hidden, tokens, total, gradients[0])
        pulled, bias = torch.zeros_like(total)[..., None], []
        for part in ctx.head.parts(hidden):
            d = rows[..., part]
            pulled = pulled + d @ ctx.head.module.weight[part]
            bias.append(d.sum(1))
        factors: dict[str, Factor] = {
            "weight": OuterProducts(rows, hidden),
            "bias": Dense(torch.cat(bias, 1)),
        }
        for local, name in ctx.head.names.items():
            ctx.recorder.take_factor(name, factors[local])
        return None, None, pulled.to(hidden), None


_sliced_log_probs: Callable[..., tuple[Tensor, Tensor]] = _SlicedTokenLogProbs.apply
