package server

import "net/http"

// KeepAlive is keepAlive for tests.
func KeepAlive(w http.ResponseWriter) (http.ResponseWriter, func()) { return keepAlive(w) }
