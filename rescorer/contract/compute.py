"""Device and precision of a network's computations."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import processor_words
from rescorer.contract.choices import Device, Precision, PrecisionOrFastest

# PyTorch is loaded where a type or a device is asked for: a column without a network does not wait for it.
if TYPE_CHECKING:
    import torch

# NVIDIA's manual of cuBLAS, "Results reproducibility": one of two sizes of work space.
CUBLAS_SPACE = ":4096:8"
BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")


# Turns of libgomp's waiting loop, some microseconds: a training of d=256 on two idle cores has 4,800 pairs a
# second (5,400 if threads spin without end, 3,500 if never), next to a busy process 3,300 (without end: 900).
SPINS = "1000"


def let_waiting_threads_sleep() -> None:
    """Let the threads of a product sleep while they wait for each other; call before loading PyTorch.

    OpenMP's threads spin at the end of each product by default. When another process is busy, the last
    thread has no processor while the others spin: training was up to 20 times slower. Environment
    variables set by the user stay.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def compute_on_one_thread() -> None:
    """Run each product of this process on one thread: its value is the same on every machine."""
    import torch

    torch.set_num_threads(1)


@dataclass(frozen=True)
class Compute:
    """Settings of a scorer's computations.

    The precision is that of the products; sums, gates and softmax are always float32. "auto" takes a GPU if
    there is one. Unnormalized leaves out the softmax denominator, for networks trained to have it at 1.
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
    """PyTorch's type of this precision."""
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
        raise ConfigError(
            f"no CUDA device here: {_why_no_gpu(torch)}. Leave --device out, or use --device cpu"
        )
    return torch.device(device)


def _why_no_gpu(torch: Any) -> str:
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is a build for CPUs alone"
    built = f"PyTorch {torch.__version__}, built for CUDA {torch.version.cuda}, finds none"
    return f"{built} (nvidia-smi tells the newest CUDA that the driver knows)"


def known_precision(precision: PrecisionOrFastest) -> Precision:
    """The fastest is bfloat16 where the processor has instructions for it, else float32."""
    if precision != "fastest":
        return precision
    native = not processor_words().isdisjoint(BFLOAT16_INSTRUCTIONS)
    return "bfloat16" if native else "float32"


@contextlib.contextmanager
def repeatable_sums(device: torch.device) -> Iterator[None]:
    """Make a GPU sum in the same order in every run; sums on a CPU are already repeatable here.

    PyTorch warns of operations without such an order, which a user's own network may have.
    """
    import torch

    if device.type == "cpu":
        yield
        return
    deterministic: Any = torch.utils.deterministic
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_SPACE)
    before = torch.get_deterministic_debug_mode(), deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = False  # else each new tensor is filled with NaN first
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        deterministic.fill_uninitialized_memory = before[1]
