"""Working jobs: fetching, executing and completing them."""
