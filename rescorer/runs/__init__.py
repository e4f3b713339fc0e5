"""Trainings from data to a model directory."""
