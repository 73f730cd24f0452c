package main

// Keeps the wanted releases in go.mod, though only the CLI imports them.
import (
	_ "github.com/riverqueue/river"
	_ "github.com/riverqueue/river/riverdriver/riverpgxv5"
)
