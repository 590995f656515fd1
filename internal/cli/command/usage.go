package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/core/reason"
)

// Exit ends the command with a code; everything was said already.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Usage is an error in how the command was called.
func Usage(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, format, args...)
}

// FlagError marks what cobra found wrong with the flags.
func FlagError(_ *cobra.Command, err error) error { return usageMark{err} }

type usageMark struct{ error }

// IsUsage reports whether cobra refused the arguments: then no command ran.
func IsUsage(err error) bool {
	var mark usageMark
	return errors.As(err, &mark) || strings.HasPrefix(err.Error(), "unknown command ") ||
		strings.HasPrefix(err.Error(), "required flag(s)") || strings.HasPrefix(err.Error(), "if any flags in the group")
}
