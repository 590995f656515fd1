package main

// forbidDumps has nothing to do: Windows keeps no memory of a process that ends unless its
// operator asks for it.
func forbidDumps() error { return nil }
