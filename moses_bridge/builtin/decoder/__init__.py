"""The decoder: phrase-based, with stacks, cube pruning, and neural models in its search."""
