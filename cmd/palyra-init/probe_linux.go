package main

// probe is what this program does as the tool.
func probe([]string) int { return 2 }
