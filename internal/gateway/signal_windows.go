package gateway

import "os"

// reloadSignal is none: Windows has no such signal; use `palyra policy reload`.
var reloadSignal os.Signal
