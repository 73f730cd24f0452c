"""Tests of features, a folder each."""
