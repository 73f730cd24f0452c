"""Deploys and other moments marked on charts."""
