//go:build unix

package gateway

import (
	"os"
	"syscall"
)

// reloadSignal orders a reload of the policy directory.
var reloadSignal os.Signal = syscall.SIGHUP
