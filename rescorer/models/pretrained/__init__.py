"""Pretrained models of other toolkits as scorers, by `rescorer.models.pretrained.choice`.

Their packages (transformers, ctranslate2) are imported only when such a model is named.
"""
