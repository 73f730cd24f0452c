"""`riverui top`: `lines` makes texts of the overview, `app` is the application."""
