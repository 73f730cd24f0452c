module github.com/riverqueue/river/riverdriver/riversqlite

go 1.26

require github.com/riverqueue/river/riverdriver v0.51.1
