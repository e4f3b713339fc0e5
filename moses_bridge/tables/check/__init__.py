"""Checks of a phrase table and its moses.ini: faults and oddities."""
