package main

// int80 makes a system call of the 32-bit table without arguments.
func int80(number uintptr) int
