package tool

import (
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// DependentCall is a call that another call depends on, such as the start of a server or a
// question from it. It is decided and recorded like every call.
type DependentCall struct {
	Caller access.Caller
	Tool   string
	// Input is canonical JSON; empty means {}.
	Input            []byte
	Channel, Session string
}

// DependentResult is the outcome of a DependentCall.
type DependentResult struct {
	// Denied is the reason and the remedy of a denial; nil for an allowed call.
	Denied *reason.Error
	Report Report
}
