"""Parts of networks: the output layer, recurrent units, initial weights, tensor files."""
