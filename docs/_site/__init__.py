"""Build the documentation's site: `python -m docs._site`."""
