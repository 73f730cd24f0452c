// Package riversqlite stands in for River's SQLite driver: the CLI imports it, the tests never use it.
package riversqlite

import (
	"database/sql"

	"github.com/riverqueue/river/riverdriver"
)

// Driver satisfies the interface that the CLI hands around.
type Driver struct{ riverdriver.Driver[*sql.Tx] }

// New must not be called.
func New(*sql.DB) *Driver { panic("SQLite is not built in") }
