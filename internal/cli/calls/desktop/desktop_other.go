//go:build !linux && !darwin

package desktop

// Here reports whether this process belongs to a graphical session.
func Here(func(string) string) bool { return false }

// Find returns the desktop of this user's session, or nil if this system has none.
func Find(func(string) string) Desktop { return nil }
