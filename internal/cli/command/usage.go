package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/core/reason"
)

// Exit ends the command with a code, without a further message.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Usage returns a usage error.
func Usage(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, format, args...)
}

// FlagError marks cobra's flag errors.
func FlagError(_ *cobra.Command, err error) error { return usageMark{err} }

type usageMark struct{ error }

// IsUsage reports whether cobra refused the arguments, so that no command ran.
func IsUsage(err error) bool {
	var mark usageMark
	return errors.As(err, &mark) || strings.HasPrefix(err.Error(), "unknown command ") ||
		strings.HasPrefix(err.Error(), "required flag(s)") || strings.HasPrefix(err.Error(), "if any flags in the group")
}
