"""What a front end asks for first: counts, features, names."""
