// Command palyra is the command line of the Palyra gateway.
package main

import (
	"context"
	"os"

	"palyra/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:]))
}
