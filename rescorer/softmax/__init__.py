"""The output layer, exact, without ever keeping all logits."""
