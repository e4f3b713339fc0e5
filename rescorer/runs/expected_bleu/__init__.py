"""Phrase models trained on whole translations: for the BLEU that is expected on n-best lists."""
