package walbatch

import "unsafe"

// SQLite is C that was translated to Go: pointers are numbers, and a pointer to a
// function is the number of Go's own value of a function.

// at is what is at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// method is the function whose pointer is in a struct of C.
func method[F any](field *uintptr) *F { return (*F)(unsafe.Pointer(field)) }

// pointer is that to a function that is no closure, so that no collection takes it.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }
