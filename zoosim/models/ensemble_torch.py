"""An ensemble on a graphics card, through torch: the passes of `ensemble_net`, and training as in `ensemble_training`.

Weights, inputs, orders of rows and units are the same; sums run in other orders, so figures differ from those of the
compiled code by the rounding of float32, and from card to card. Means and standard deviations over members are taken by
the processor, in float64. torch's setting for matrix products in TF32 must stay off, as it is by default.
"""

from collections.abc import Callable

import numpy as np
import torch

from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.ensemble_net import Ensemble, as_tile, summarise
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.models.ensemble_training import shuffled
from zoosim.nets.adam import LARGEST_SLOPE
from zoosim.nets.network import BIASES, INPUTS, OUTPUTS, WEIGHTS

LARGEST_PASS = 2**25
"""Units of one layer, over all members and rows, that a pass computes at once: 128 MB of float32."""

Layer = tuple[torch.Tensor, torch.Tensor]
"""The weights of a layer `(M, n_out, n_in)` and its biases `(M, n_out)`."""


def predict_rows(device: str, net: Ensemble, rows: FloatArray, mean: FloatArray, std: FloatArray) -> None:
    """Write mean and standard deviation over members `(n,)` at `rows (n, d)`, as `ensemble_net.predict_rows` does."""
    layers = _layers(net, _sent(net.trained[:, 0], device))
    inputs = _sent(_tile(net.centre, net.scale, rows), device).T

    def first_sums(start: int, end: int) -> torch.Tensor:
        return _sums(layers[0], inputs[start:end].expand(len(net.trained), -1, -1))

    summarise(_outputs(net, layers, len(rows), first_sums), net.reward, mean, std)


class TorchObjective(EnsembleObjective):
    """mean + beta std of an ensemble, computed on a graphics card for all requests and actions at once."""

    def __init__(self, device: str, net: Ensemble, states: FloatArray, beta: float) -> None:
        """Make the objective; `device` and `states` have been checked."""
        super().__init__(net, states, beta)
        self._device = device
        self._layers = _layers(net, _sent(net.trained[:, 0], device))
        self._state_sums = _sent(self.parts, device).transpose(0, 1)  # (M, m, n_1)

    def mean_std(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each action and the standard deviation over members."""
        requests = self.checked(actions)
        per_request = requests.shape[1]
        rows = requests.reshape(-1, requests.shape[2])
        d = self.net.states
        inputs = _sent(_tile(self.net.centre[d:], self.net.scale[d:], rows), self._device).T
        action_weights = self._layers[0][0][:, :, d:].transpose(1, 2)

        def first_sums(start: int, end: int) -> torch.Tensor:
            request_of_row = torch.arange(start, end, device=self._device) // per_request
            action_inputs = inputs[start:end].expand(len(self.net.trained), -1, -1)
            return torch.baddbmm(self._state_sums[:, request_of_row], action_inputs, action_weights)

        mean = np.empty(len(rows))
        std = np.empty(len(rows))
        summarise(_outputs(self.net, self._layers, len(rows), first_sums), self.net.reward, mean, std)
        shape = requests.shape[1:2] if self.single else requests.shape[:2]
        return mean.reshape(shape), std.reshape(shape)


def fit(
    device: str,
    net: Ensemble,
    rows: FloatArray,
    targets: FloatArray,
    weights: Float32Array,
    key: np.uint64,
    steps: IntArray,
    n_epochs: int,
    batch_size: int,
    rate: float,
) -> None:
    """Train all members at once, as `ensemble_training.fit` trains one after another: on the same batches in order."""
    members = len(net.trained)
    inputs = _sent(_tile(net.centre, net.scale, rows), device).T.contiguous()
    wanted = _sent(targets, device)
    row_weights = _sent(weights, device)
    params, first, second = (_sent(net.trained[:, part], device) for part in range(3))
    layers = _layers(net, params)
    leaves = [part.requires_grad_() for layer in layers for part in layer]
    for epoch in range(n_epochs):
        orders = [shuffled(key, (steps[1] + epoch) * members + m, len(rows)) for m in range(members)]
        order = torch.tensor(np.stack(orders), device=device)
        for start in range(0, len(rows), batch_size):
            steps[0] += 1
            chosen = order[:, start : start + batch_size]
            outputs = _last_sums(layers, _sums(layers[0], inputs[chosen]))
            errors = row_weights.gather(1, chosen) * (outputs - wanted[chosen]) ** 2
            slopes = torch.autograd.grad(errors.mean(dim=1).sum(), leaves)
            # In the order of the vector of weights: layer by layer, its matrix, then its biases.
            gradient = torch.cat([slope.flatten(1) for slope in slopes], dim=1)
            _adam_step(params, first, second, gradient, rate, int(steps[0]))
    steps[1] += n_epochs
    net.trained[:] = torch.stack([params, first, second], dim=1).cpu().numpy()


@torch.no_grad()
def _adam_step(
    params: torch.Tensor, first: torch.Tensor, second: torch.Tensor, gradient: torch.Tensor, rate: float, step: int
) -> None:
    """Move weights `(M, p)` against their slopes, as `zoosim.nets.adam.adam_step` does for one member."""
    slopes = gradient.clamp_(-LARGEST_SLOPE, LARGEST_SLOPE)
    first.mul_(0.9).add_(slopes, alpha=0.1)
    second.mul_(0.999).addcmul_(slopes, slopes, value=0.001)
    root = 1.0 / (1.0 - 0.999**step) ** 0.5
    params.addcdiv_(first, second.sqrt().mul_(root).add_(1e-8), value=-rate / (1.0 - 0.9**step))


def _sent(array: FloatArray | Float32Array, device: str) -> torch.Tensor:
    """Return a copy in float32 on a device."""
    return torch.tensor(array.astype(np.float32, copy=False), device=device)


def _tile(centre: FloatArray, scale: FloatArray, rows: FloatArray) -> Float32Array:
    """Return standardised rows as columns `(d, n)`, rounded as the compiled code does."""
    tile = np.empty((rows.shape[1], len(rows)), np.float32)
    as_tile(rows, centre, scale, tile)
    return tile


def _layers(net: Ensemble, params: torch.Tensor) -> list[Layer]:
    """Return the layers as views of `params (M, p)`, stored by output, without a history of slopes."""
    members = len(params)
    layers = []
    for layer in net.layers.tolist():
        outputs = layer[OUTPUTS]
        matrix = params[:, layer[WEIGHTS] : layer[BIASES]].view(members, outputs, layer[INPUTS])
        biases = params[:, layer[BIASES] : layer[BIASES] + outputs]
        layers.append((matrix.detach(), biases.detach()))
    return layers


def _outputs(
    net: Ensemble, layers: list[Layer], count: int, first_sums: Callable[[int, int], torch.Tensor]
) -> FloatArray:
    """Return what the members put out for rows 0 to `count` - 1, `(M, count)`, as many rows at once as fit."""
    members = len(net.trained)
    out = np.empty((members, count))
    at_once = max(1, LARGEST_PASS // (members * int(net.layers[:, OUTPUTS].max())))
    with torch.no_grad():
        for start in range(0, count, at_once):
            end = min(start + at_once, count)
            out[:, start:end] = _last_sums(layers, first_sums(start, end)).cpu().numpy()
    return out


def _sums(layer: Layer, inputs: torch.Tensor) -> torch.Tensor:
    """Return the sums `(M, w, n_out)` of a layer over `inputs (M, w, n_in)`."""
    matrix, biases = layer
    return torch.baddbmm(biases.unsqueeze(1), inputs, matrix.transpose(1, 2))


def _last_sums(layers: list[Layer], sums: torch.Tensor) -> torch.Tensor:
    """Return what the members put out, `(M, w)`, from the sums of their first layers `(M, w, n_1)`."""
    for layer in layers[1:]:
        units = 0.5 * sums * (1.0 + sums * torch.rsqrt(sums * sums + 4.0))
        sums = _sums(layer, units)
    return sums[..., 0]
