// Command river is River's own CLI at the River release that riverui is tested against.
//
// The newest published CLI module is older than the release, so its command set is built here on top of the newer
// library; its SQLite driver has no such release and is replaced by a stub.
package main

import (
	"os"

	"github.com/riverqueue/river/cmd/river/rivercli"
)

func main() {
	if err := rivercli.NewCLI(&rivercli.Config{Name: "River"}).BaseCommandSet().Execute(); err != nil {
		os.Exit(1)
	}
}
