"""Tests of features, one folder each."""
