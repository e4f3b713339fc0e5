"""Pretrained models of other toolkits as scorers; `rescorer.models.pretrained.choice` is the door.

Nothing of their packages (transformers, ctranslate2) is imported before such a model is named.
"""
