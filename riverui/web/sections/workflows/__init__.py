"""River Pro's workflows, periodic jobs and producers."""
