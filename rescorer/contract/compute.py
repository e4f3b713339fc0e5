"""On what, and how precisely, a network computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.processors import processor_words
from rescorer.contract.choices import Device, Precision

# PyTorch is loaded where a type or a device is asked for: a column without a network does not wait for it.
if TYPE_CHECKING:
    import torch

BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")


@dataclass(frozen=True)
class Compute:
    """How a scorer computes.

    Attributes:
        precision: of the products; sums, gates and softmax are float32 in either case.
        device: "auto" takes a GPU if there is one.
        unnormalized: leave out the softmax's denominator; for networks trained to have it at 1.
    """

    precision: Precision = "float32"
    device: Device = "auto"
    unnormalized: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Type of the products."""
        return dtype_of(self.precision)

    @property
    def place(self) -> torch.device:
        """See `choose_device`."""
        return choose_device(self.device)

    def __str__(self) -> str:
        return self.precision + (" unnormalized" if self.unnormalized else "")


def dtype_of(precision: Precision) -> torch.dtype:
    """PyTorch's type of products in this precision."""
    import torch

    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def choose_device(device: Device) -> torch.device:
    """The device of a name; "auto" is a GPU if there is one.

    Raises:
        ConfigError: a GPU is requested and there is none.
    """
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device here: leave --device out, or use --device cpu")
    return torch.device(device)


def fastest_precision() -> Precision:
    """bfloat16 where the processor has instructions for it, else float32."""
    native = not processor_words().isdisjoint(BFLOAT16_INSTRUCTIONS)
    return "bfloat16" if native else "float32"
