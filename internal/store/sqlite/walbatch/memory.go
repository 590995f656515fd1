package walbatch

import "unsafe"

// SQLite is C that was translated to Go: pointers are numbers, and a pointer to a
// function is the number of Go's own value of a function.

// at returns the value at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// method returns the function whose pointer is stored in a C struct.
func method[F any](field *uintptr) *F { return (*F)(unsafe.Pointer(field)) }

// pointer returns the pointer of a function. f MUST NOT be a closure, which could be garbage
// collected.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }
