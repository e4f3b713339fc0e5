"""Initial weights of recurrent networks, drawn in the order of a network's layers.

Another order of layers is another training.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

# Standard deviation of word vectors and output weights where Adam trains them.
WORD_DEVIATION = 0.1


def draw_weights(network: nn.Module, draw: Callable[[str, nn.Parameter], None]) -> None:
    """Set biases to 0, draw square blocks of recurrent matrices orthogonal, and all others as told.

    Args:
        network: gets the weights.
        draw: sets a parameter of a name.
    """
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif "recurrent" in name:
            for block in torch.split(parameter.data, parameter.shape[1]):
                nn.init.orthogonal_(block)
        else:
            draw(name, parameter)


def scale_by_fan_in(name: str, parameter: nn.Parameter) -> None:
    """Draw a matrix as Glorot & Bengio (2010); of word vectors and outputs, and a vector, from N(0, 0.1^2)."""
    if "embedding" in name or name.startswith("output") or parameter.dim() == 1:
        nn.init.normal_(parameter, std=WORD_DEVIATION)
    else:
        nn.init.xavier_uniform_(parameter)
