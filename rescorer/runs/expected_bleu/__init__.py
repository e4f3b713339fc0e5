"""Phrase models trained on whole translations, for expected BLEU on n-best lists."""
