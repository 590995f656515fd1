package gateway

import "os"

// reloadSignal is nil: Windows has no such signal; use `palyra policy reload`.
var reloadSignal os.Signal
