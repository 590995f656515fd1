package walbatch

import "unsafe"

// SQLite is C code that was translated to Go. Its pointers are uintptr values, and a function
// pointer is the representation of a Go function value as uintptr.

// at returns the value at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// method returns the function whose pointer is stored in a C struct.
func method[F any](field *uintptr) *F { return (*F)(unsafe.Pointer(field)) }

// pointer returns the pointer of a function. f MUST NOT be a closure, which could be garbage
// collected.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }
