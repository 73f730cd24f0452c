"""River UI's page addresses, each leading to what comes nearest here."""
