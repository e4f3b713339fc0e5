"""A trained network that is trained further: what a training takes over from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import print_note
from rescorer.contract.data import Data
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Prepared
from rescorer.models.model_description import read_description
from rescorer.models.model_directory import fingerprint, load_model, settings_of_sizes


@dataclass(frozen=True)
class Start:
    """The network that a training begins with.

    Attributes:
        directory: of the model.
        model: what is in it.
        digest: of its files.
    """

    directory: Path
    model: TrainedModel[Any]
    digest: str

    @classmethod
    def load(cls, directory: Path, architecture: str) -> Start:
        """Read a model directory.

        Args:
            directory: of the model.
            architecture: what the user calls the network, who thereby trusts the code of one from outside.

        Raises:
            InputError: the directory is not a whole model.
            ConfigError: the model has another architecture.
        """
        found = read_description(directory)["architecture"]
        if found != architecture:
            raise ConfigError(
                f"{directory} is a network of the architecture {found!r}, not {architecture!r}: "
                f"add --arch {found}"
            )
        return cls(directory, load_model(directory, trust_code=True), fingerprint(directory))

    def settings(self, settings: Any) -> Any:
        """The settings of a training, with the sizes and the reading of this network.

        Raises:
            ConfigError: they have others, which are not the defaults either.
        """
        own = {"model": settings_of_sizes(self.directory, self.model.description).model}
        if hasattr(settings, "reading"):
            own["reading"] = self.model.training.reading
        for key, value in own.items():
            found = getattr(settings, key)
            if found not in (value, getattr(type(settings)(), key)):
                raise ConfigError(
                    f"{key} is {found}, expected that of {self.directory}, {value}: leave the key out"
                )
        return replace(settings, **own)

    def data(self, data: Data) -> Data:
        """The data of a training, with the shortlists of this network.

        Raises:
            ConfigError: there are texts to choose shortlists from.
        """
        if data.texts is not None:
            raise ConfigError(f"the shortlists are those of {self.directory}: leave --texts out")
        return replace(data, shortlists=self.model.shortlists)

    def give_weights(self, prepared: Prepared) -> None:
        """Replace the initial weights of a prepared network by those of this one.

        Raises:
            ConfigError: the architecture has chosen shortlists of its own.
        """
        if prepared.shortlists != self.model.shortlists:
            raise ConfigError(
                f"the architecture {self.model.architecture!r} takes no shortlists from the data, "
                "so its networks cannot be trained further"
            )
        prepared.network.load_state_dict(self.model.network.state_dict())
        prepared.network.eval()
        with torch.no_grad():
            loss = prepared.task.held_out_loss()
        prepared.network.train()
        if loss is not None:
            print_note(f"held-out loss of {self.directory}: {loss:.4g} nats per word")
