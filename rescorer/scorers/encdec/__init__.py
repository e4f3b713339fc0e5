"""The RNN Encoder-Decoder of Cho et al. (2014)."""
