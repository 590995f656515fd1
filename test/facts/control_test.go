//go:build linux

package facts

import "palyra/internal/dispatch"

// ignoreFacts lets dispatch run calls whose facts are not those that were
// judged. There is nothing to switch off as long as dispatch plans a call anew
// and goes by what it finds.
func ignoreFacts(*dispatch.Config) {}
